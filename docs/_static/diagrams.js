// Draws the diagrams of a page. They stand on a light panel in both colour schemes.
mermaid.initialize({ startOnLoad: true, theme: "neutral", securityLevel: "strict", fontFamily: "inherit" });
