"use strict";
(function () {
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };

  function draw(spec) {
    const plot = document.getElementById(spec.dataset.plot);
    const figure = JSON.parse(spec.textContent);
    plot.style.height = plot.clientHeight + legendHeight(plot, figure) + "px";
    return Plotly.newPlot(plot, figure.data, suited(figure.layout), config).then(function () {
      plot.on("plotly_afterplot", function () { makeScalable(plot); });
      makeScalable(plot);
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
