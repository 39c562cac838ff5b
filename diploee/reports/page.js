"use strict";
(function () {
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: true,
    modeBarButtons: [["toImage", csvButton(), "zoom2d", "pan2d", "resetScale2d"]],
  };
  const linked = [];
  let linking = false;

  function csvButton() {
    return { name: "csv", title: "Download the data as CSV", icon: Plotly.Icons.disk, click: save };
  }

  // The numbers of a figure as they are drawn, a row for each point.
  function save(plot) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csvOf(plot)], { type: "text/csv" }));
    link.download = plot.id + ".csv";
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }

  function csvOf(plot) {
    const cell = (value) => '"' + String(value === undefined ? "" : value).replace(/"/g, '""') + '"';
    const title = (axis) => (axis && axis.title && axis.title.text) || "";
    const layout = plot._fullLayout;
    const rows = [["trace", title(layout.xaxis) || "x", title(layout.yaxis) || "y", "value"]];
    for (const trace of plot._fullData) {
      const xs = along(trace, "x"), ys = along(trace, "y");
      if (trace.type === "heatmap") {
        ys(trace.z.length).forEach((y, row) => {
          xs(trace.z[row].length).forEach((x, k) => rows.push([trace.name || "", x, y, trace.z[row][k]]));
        });
      } else {
        const n = (trace.y || trace.x || []).length, x = xs(n), y = ys(n);
        for (let k = 0; k < n; k += 1) rows.push([trace.name || "", x[k], y[k], ""]);
      }
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  // Coordinates that a trace holds, or tells by a start and a step [ms of a date].
  function along(trace, name) {
    return function (n) {
      if (trace[name]) return Array.from(trace[name]);
      const start = trace[name + "0"], step = trace["d" + name];
      if (typeof start !== "string") return Array.from({ length: n }, (_, k) => (start || 0) + k * (step || 1));
      const first = Date.parse(start.replace(" ", "T") + (start.length > 10 ? "Z" : ""));
      return Array.from({ length: n }, (_, k) => new Date(first + k * step).toISOString().slice(0, 23));
    };
  }

  // Zooming the days, or the week, of one figure zooms those of all.
  function link(plot, axis) {
    if (axis.type !== "date" || !axis.title || !axis.title.text) return;
    linked.push([plot, axis.title.text]);
    plot.on("plotly_relayout", function (change) {
      const update = {};
      for (const key of Object.keys(change)) if (key.startsWith("xaxis.")) update[key] = change[key];
      if (linking || !Object.keys(update).length) return;
      linking = true;
      const others = linked.filter(([other, name]) => other !== plot && name === axis.title.text);
      Promise.all(others.map(([other]) => Plotly.relayout(other, update))).then(function () { linking = false; });
    });
  }

  function draw(spec) {
    const plot = document.getElementById(spec.dataset.plot);
    const figure = JSON.parse(spec.textContent);
    plot.style.height = plot.clientHeight + legendHeight(plot, figure) + "px";
    return Plotly.newPlot(plot, figure.data, suited(figure.layout), config).then(function () {
      plot.on("plotly_afterplot", function () { makeScalable(plot); });
      makeScalable(plot);
      link(plot, figure.layout.xaxis);
      plot.dataset.drawn = "true";
    });
  }

  // Room for the rows of the legend, so that the axes keep their height.
  function legendHeight(plot, figure) {
    if (!figure.layout.showlegend) return 0;
    const names = figure.data.filter((trace) => trace.showlegend !== false).map((t) => t.name);
    const entry = 56 + 7 * Math.max(...names.map((name) => name.length));
    const columns = Math.max(1, Math.floor((plot.clientWidth - 80) / entry));
    return Math.ceil(names.length / columns) * 20;
  }

  // On paper the style sheet scales a figure as it stands to the width of the page.
  function makeScalable(plot) {
    const width = plot._fullLayout.width, height = plot._fullLayout.height;
    plot.style.setProperty("--shape", width + " / " + height);
    for (const svg of plot.querySelectorAll(".main-svg")) {
      svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    }
  }

  // In a narrow window: less margin, a colour bar below, fewer ticks.
  function suited(layout) {
    if (window.innerWidth > 560) return layout;
    layout.margin = { l: 46, r: 8, t: 10, b: 46 };
    layout.font.size = 11;
    for (const axis of [layout.xaxis, layout.yaxis]) {
      if (axis.type === "date") axis.nticks = 5;
    }
    return layout;
  }

  // One figure per turn, so that the page can be read and scrolled meanwhile.
  const waiting = Array.from(document.querySelectorAll("script.spec"));
  function next() {
    const spec = waiting.shift();
    if (!spec) {
      document.documentElement.dataset.drawn = "true";
      return;
    }
    draw(spec).then(function () { setTimeout(next, 0); });
  }
  next();
})();
