// Draws the diagrams of a page. On narrow screens a wide diagram is scrolled rather than shrunk until it is unreadable.
mermaid.initialize({
  startOnLoad: false,
  theme: "neutral",
  securityLevel: "strict",
  fontFamily: "inherit",
  flowchart: { wrappingWidth: 320, nodeSpacing: 30, rankSpacing: 28, padding: 8 },
  sequence: { messageMargin: 24, actorMargin: 24, mirrorActors: false, wrap: true },
});
addEventListener("load", async () => {
  await mermaid.run();
  for (const drawing of document.querySelectorAll("pre.mermaid svg")) {
    drawing.style.minWidth = `min(${drawing.style.maxWidth || "100%"}, 36rem)`;
  }
});
