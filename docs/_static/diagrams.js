// Draws the diagrams of a page. On narrow screens a flowchart goes from top to bottom, so that it is whole and readable there.
mermaid.initialize({
  startOnLoad: false,
  theme: "neutral",
  securityLevel: "strict",
  fontFamily: "inherit",
  flowchart: { wrappingWidth: 320, nodeSpacing: 30, rankSpacing: 28, padding: 8 },
  sequence: { messageMargin: 24, actorMargin: 24, mirrorActors: false, wrap: true },
});
addEventListener("load", async () => {
  if (matchMedia("(max-width: 40rem)").matches) {
    for (const diagram of document.querySelectorAll("pre.mermaid")) {
      diagram.textContent = diagram.textContent.replace(/^(\s*)flowchart LR\b/, "$1flowchart TB");
    }
  }
  await mermaid.run();
});
