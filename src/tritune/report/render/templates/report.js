"use strict";
// Draw every chart from the specification beside it. Where that fails, its table opens instead.
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
  const place = figure.querySelector(".chart");
  vegaEmbed(place, spec, { renderer: "svg", actions: false, ast: true, defaultStyle: false })
    .then(() => { place.dataset.drawn = "yes"; })
    .catch((error) => {
      console.error(error);
      place.hidden = true;
      figure.querySelector("details").open = true;
    });
}
// On paper nobody can open a table.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
