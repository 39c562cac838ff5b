"use strict";
(function () {
  const coded = JSON.parse(document.getElementById("columns").textContent);
  const decoded = [];
  const plots = [];

  function bytes(text) {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  }

  // The values of a column, decoded when first needed.
  function column(place) {
    if (!decoded[place]) {
      const c = coded[place];
      decoded[place] = c.list ? c.list
        : c.n ? even(c)
        : c.f8 ? new Float64Array(bytes(c.f8))
        : c.f4 ? new Float32Array(bytes(c.f4))
        : Float64Array.from(new Int16Array(bytes(c.i2)), (v) => (v === -32768 ? NaN : c.low + (v + 32767) * c.step));
    }
    return decoded[place];
  }

  function even(c) {
    const values = Float64Array.from({ length: c.n }, (_, k) => c.start + k * c.step);
    for (const [first, by] of c.jumps) for (let k = first; k < c.n; k += 1) values[k] += by;
    return values;
  }

  // The first place whose value is greater, in rising values.
  function above(values, x) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= x) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The rows of a layer within a range, thinned to what its pixels show: means or extremes.
  function rows(layer, range, most, dated) {
    const names = Object.keys(layer.columns);
    const values = names.map((name) => column(layer.columns[name]));
    const at = (k) => Object.fromEntries(names.map((name, j) => [name, plain(values[j][k])]));
    const x = values[names.indexOf("x")];
    let first = 0, end = x.length;
    if (layer.how && range) {
      first = Math.max(above(x, range[0]) - 2, 0);
      end = Math.min(above(x, range[1]) + 2, x.length);
    }
    let size = Math.ceil((end - first) / (most / (layer.how === "means" ? 4 : 2)));
    const found = [], nDay = dated ? Math.round(86.4e6 / (x[1] - x[0])) : 0;
    if (!layer.how || size < 3) {
      for (let k = first; k < end; k += 1) found.push(at(k));
      return found;
    }
    if (layer.how === "means" && 2 * size > nDay && nDay > 1) size = Math.ceil(size / nDay) * nDay; // whole days
    first -= first % size;
    for (let k = first; k < end - 1; k += size) {
      const stop = Math.min(k + size, end - 1);
      if (layer.how === "means") {
        const row = { x: x[k] };
        for (let j = 0; j < names.length; j += 1) if (names[j] !== "x") row[names[j]] = mean(values[j], k, stop);
        found.push(row);
      } else {
        const y = values[names.indexOf("y")], low = layer.columns.y2 === undefined ? y : values[names.indexOf("y2")];
        let top = k, bottom = k;
        for (let i = k; i < stop; i += 1) {
          if (!(y[i] <= y[top])) top = i;
          if (!(low[i] >= low[bottom])) bottom = i;
        }
        if (low !== y) found.push({ x: x[k], y: plain(y[top]), y2: plain(low[bottom]) });
        else for (const i of new Set([Math.min(top, bottom), Math.max(top, bottom)])) found.push(at(i));
      }
    }
    if (end > first) found.push(at(end - 1));
    return found;
  }

  function plain(value) { return typeof value === "number" && isNaN(value) ? null : value; }

  function mean(values, first, end) {
    let sum = 0;
    for (let k = first; k < end; k += 1) sum += values[k];
    return plain(sum / (end - first));
  }

  function most(plot) { return 2 * Math.max(plot.box.clientWidth, 200); }

  function draw(plot) {
    if (plot.asked) return plot.asked;
    const spec = plot.spec;
    spec.datasets = {};
    plot.layers.forEach((layer, k) => { spec.datasets["d" + k] = rows(layer, plot.range, most(plot), plot.kind === "date"); });
    if (window.innerWidth < 560) narrow(spec);
    plot.asked = vegaEmbed(plot.box, spec, { actions: false, ast: true, renderer: "svg", tooltip: false, logLevel: 1 }).then((made) => {
      plot.view = made.view;
      listen(plot);
      plot.box.dataset.drawn = "true";
      if (plots.every((other) => other.view)) document.documentElement.dataset.drawn = "true";
    });
    return plot.asked;
  }

  // In a narrow window: fewer ticks, names at an angle.
  function narrow(spec) {
    for (const layer of spec.layer) {
      const x = layer.encoding.x;
      if (!x || !x.axis) continue;
      if (x.type === "nominal") x.axis.labelAngle = -40;
      else if (typeof x.axis.tickCount !== "object") x.axis.tickCount = 4;
    }
  }

  // A range of x, or none for all, for this figure and those of the same days or week.
  function zoom(plot, range) {
    const kinds = ["date", "time of day", "time of week"];
    for (const other of plots) {
      if (other !== plot && !(kinds.includes(plot.kind) && other.kind === plot.kind && other.label === plot.label)) continue;
      other.range = range;
      if (!other.view) continue;
      other.view.signal("shown", range || other.domain);
      other.layers.forEach((layer, k) => {
        if (layer.how) other.view.data("d" + k, rows(layer, range, most(other), other.kind === "date"));
      });
      other.view.runAsync();
    }
  }

  function within(plot, low, high) {
    const [first, last] = plot.domain, log = plot.kind === "log";
    const to = (v) => (log ? Math.log(v) : v), back = (v) => (log ? Math.exp(v) : v);
    const ends = [Math.max(low, first), Math.min(high, last)];
    const enough = to(ends[1]) - to(ends[0]) > (to(last) - to(first)) * 1e-6;
    if (enough) zoom(plot, ends[0] <= first && ends[1] >= last ? null : ends.map((v) => back(to(v))));
  }

  // Zoom by a factor about a place, or move by a part of what is shown.
  function change(plot, factor, about, move) {
    const x = plot.view.scale("x"), width = plot.view.width();
    within(plot, +x.invert(about - about * factor + move * width), +x.invert(about + (width - about) * factor + move * width));
  }

  function listen(plot) {
    const box = plot.box;
    const marks = ["at", "tip", "drawn-range"].map((name) => {
      const mark = document.createElement("div");
      mark.className = name;
      mark.hidden = true;
      return box.appendChild(mark);
    });
    const [at, tip, chosen] = marks;
    let from = null;
    // Where the pointer is from the upper left corner of the axes [px].
    function place(event) {
      const outer = box.getBoundingClientRect(), [left, top] = plot.view.origin(), pad = plot.view.padding();
      const x0 = left + (pad.left || 0), y0 = top + (pad.top || 0);
      return { x: event.clientX - outer.left - x0, y: event.clientY - outer.top - y0, x0, y0 };
    }
    function hide() { at.hidden = tip.hidden = true; }
    box.addEventListener("pointermove", (event) => {
      const p = place(event), width = plot.view.width(), height = plot.view.height();
      if (from !== null) {
        const ends = [from, Math.min(Math.max(p.x, 0), width)].sort((a, b) => a - b);
        put(chosen, p.x0 + ends[0], p.y0, ends[1] - ends[0], height);
      }
      const lines = p.x >= 0 && p.x <= width && p.y >= 0 && p.y <= height ? valuesAt(plot, p.x, p.y) : [];
      if (!lines.length) return hide();
      put(at, p.x0 + p.x, p.y0, 1, height);
      tip.replaceChildren(...lines.map((line, k) => {
        const element = document.createElement(k ? "div" : "b");
        element.textContent = line;
        return element;
      }));
      tip.hidden = false;
      const side = p.x > width / 2 ? p.x0 + p.x - tip.offsetWidth - 12 : p.x0 + p.x + 12;
      tip.style.left = Math.max(side, 0) + "px";
      tip.style.top = Math.max(p.y0 + p.y - tip.offsetHeight - 8, 0) + "px";
    });
    box.addEventListener("pointerleave", hide);
    box.addEventListener("pointerdown", (event) => {
      const p = place(event);
      if (!plot.domain || event.pointerType === "touch" || event.button || p.x < 0 || p.x > plot.view.width()) return;
      from = p.x;
      box.setPointerCapture(event.pointerId);
      event.preventDefault();
      box.closest("figure").focus({ preventScroll: true });
    });
    box.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const ends = [from, Math.min(Math.max(place(event).x, 0), plot.view.width())].sort((a, b) => a - b);
      from = null;
      chosen.hidden = true;
      const x = plot.view.scale("x");
      if (ends[1] - ends[0] > 4) within(plot, +x.invert(ends[0]), +x.invert(ends[1]));
    });
    box.addEventListener("dblclick", () => zoom(plot, null));
    box.addEventListener("wheel", (event) => {
      if (!plot.domain || !(event.ctrlKey || event.shiftKey)) return; // a bare wheel scrolls the page
      event.preventDefault();
      change(plot, (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, place(event).x, 0);
    }, { passive: false });
  }

  function put(mark, left, top, width, height) {
    mark.hidden = false;
    Object.assign(mark.style, { left: left + "px", top: top + "px", width: width + "px", height: height + "px" });
  }

  // What is shown at a place of the axes: the place, and the value of every layer there.
  function valuesAt(plot, px, py) {
    const scale = plot.view.scale("x"), names = plot.kind === "category" || !scale.invert;
    const lines = [];
    let where = "";
    const x = names ? nameAt(scale, px) : +scale.invert(px);
    const y = plot.view.scale("y");
    for (const line of plot.hover) {
      const xs = column(line.columns.x), ys = column(line.columns.y);
      let k = -1, value;
      if (line.how === "cell") {
        k = cell(line, x, y.invert ? +y.invert(py) : nameAt(y, py));
        if (k >= 0) value = column(line.columns.z)[k];
        if (k >= 0 && line.columns.z !== undefined) where = cellName(plot, line, x, y.invert ? +y.invert(py) : nameAt(y, py));
      } else if (names) k = xs.indexOf(x);
      else if (line.how === "point") k = nearest(plot, scale, y, xs, ys, px, py);
      else {
        k = above(xs, x) - 1;
        if (line.how === "near" && k + 1 < xs.length && (k < 0 || xs[k + 1] - x < x - xs[k])) k += 1;
        const reach = xs.length > 1 ? Math.abs(xs[Math.min(k + 1, xs.length - 1)] - xs[Math.max(k - 1, 0)]) : Infinity;
        if (k >= 0 && Math.abs(xs[k] - x) > reach) k = -1;
      }
      if (k < 0) continue;
      if (value === undefined) value = ys[k];
      if (value === null || isNaN(value)) continue;
      if (!where) where = names ? String(x).replace(/\n/g, " ") : shown(plot, line.how === "point" || line.how === "near" ? xs[k] : x, scale);
      lines.push(line.name + ": " + number(value, line) + (line.unit ? " " + line.unit : ""));
    }
    return lines.length ? [where, ...lines] : [];
  }

  function nameAt(scale, px) {
    const names = scale.domain(), width = scale.step ? scale.step() : 1;
    const centre = (name) => scale(name) + (scale.bandwidth ? scale.bandwidth() / 2 : 0);
    return names.reduce((a, b) => (Math.abs(centre(b) - px) < Math.abs(centre(a) - px) ? b : a), names[0], width);
  }

  function cell(line, x, y) {
    const xs = column(line.columns.x), ys = column(line.columns.y), n = column(line.columns.z).length;
    if (typeof x === "string" || typeof y === "string") {
      for (let k = 0; k < n; k += 1) if (xs[k] === x && ys[k] === y) return k;
      return -1;
    }
    const i = above(xs, x) - 1, j = above(ys, y) - 1;
    return i < 0 || j < 0 ? -1 : j * xs.length + i;
  }

  function cellName(plot, line, x, y) {
    if (typeof x === "string" || typeof y === "string") return x + ", " + y;
    const ys = column(line.columns.y);
    return day.format(x) + ", " + clock.format(ys[above(ys, y) - 1]);
  }

  function nearest(plot, scale, yScale, xs, ys, px, py) {
    let best = -1, least = 400; // within 20 pixels
    for (let k = 0; k < xs.length; k += 1) {
      const d = (scale(xs[k]) - px) ** 2 + (yScale(ys[k]) - py) ** 2;
      if (d < least) { least = d; best = k; }
    }
    return best;
  }

  function number(value, line) {
    if (line.digits === null) return Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
    const step = (coded[line.columns.z === undefined ? line.columns.y : line.columns.z] || {}).step || 0;
    const digits = step ? Math.min(line.digits, Math.max(0, Math.floor(-Math.log10(step)))) : line.digits;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  const format = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", hourCycle: "h23", ...options });
  const day = format({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
  const clock = format({ hour: "2-digit", minute: "2-digit" });
  const weekday = format({ weekday: "long" });

  // A place along x in words, times with as much of them as it takes.
  function shown(plot, x, scale) {
    switch (plot.kind) {
      case "date": return day.format(x) + ", " + clock.format(x);
      case "time of day": return clock.format(x);
      case "time of week": return weekday.format(x) + " " + clock.format(x);
      case "clock": return new Date(x).toISOString().slice(11, 21);
      default: return plot.label.replace(/ \[.*/, "") + " " + Number(x.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }) + (/\[(.*)\]/.exec(plot.label) || ["", ""])[1].replace(/^(.)/, " $1");
    }
  }

  for (const script of document.querySelectorAll("script.spec")) {
    const plot = JSON.parse(script.textContent);
    plot.box = script.parentElement.querySelector(".plot");
    plot.range = null;
    plots.push(plot);
  }
  for (const figure of document.querySelectorAll("figure")) {
    const own = plots.filter((plot) => figure.contains(plot.box));
    figure.addEventListener("keydown", (event) => {
      const keys = { "+": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25], Escape: [0, 0] };
      const found = keys[event.key];
      if (!found || event.ctrlKey || event.altKey || event.metaKey) return;
      for (const plot of own) {
        if (!plot.view || !plot.domain) continue;
        if (!found[0]) zoom(plot, null); else if (plot.range || found[0] < 1) change(plot, found[0], plot.view.width() / 2, found[1]);
      }
      event.preventDefault();
    });
  }
  // What comes into view is drawn first, the rest when nothing else is to do, so that all can be printed.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(plots.find((plot) => plot.box === entry.target));
  }, { rootMargin: "400px" });
  for (const plot of plots) seen.observe(plot.box);
  const idle = window.requestIdleCallback || ((call) => setTimeout(call, 20));
  function next() {
    const plot = plots.find((other) => !other.asked);
    if (plot) draw(plot).then(() => idle(next));
  }
  idle(next);
  if (!plots.length) document.documentElement.dataset.drawn = "true";
  // On paper nothing is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const fold of folded) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });
})();
