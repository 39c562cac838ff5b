"""One way to draw: `charts` describe figures, `plotly` puts them on a page, `pictures` in files."""
