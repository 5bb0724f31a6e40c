// Starts the libraries; all that they show stands on the page.
for (const table of document.querySelectorAll("table.sortable:not(.single)")) {
  new DataTable(table, {
    paging: false,
    order: [],
    autoWidth: false,
    layout: { topStart: "info", topEnd: "search", bottomStart: null, bottomEnd: null },
    language: { search: "Filter:", info: "_TOTAL_ lines", infoEmpty: "no line", infoFiltered: " of _MAX_", zeroRecords: "no line has this" },
  });
}
for (const data of document.querySelectorAll("script[type='application/json']")) {
  const chart = data.parentElement.querySelector(".chart"), spec = JSON.parse(data.textContent);
  spec.config.legend.columns = Math.max(1, Math.floor(chart.clientWidth / 130));
  // Without code made of texts, which the page's policy forbids; a tooltip shows texts, not HTML.
  vegaEmbed(chart, spec, {
    actions: false,
    ast: true,
    renderer: "svg",
    tooltip: { theme: "page" },
  });
}
// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const closed of document.querySelectorAll("details")) closed.open = true;
});
