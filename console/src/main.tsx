import { render } from "preact";
import { App } from "./app.tsx";
import { explanation } from "./api.ts";
import { connect } from "./events.ts";
import { listenToKeys } from "./keys.tsx";
import { followTheme } from "./theme.ts";

const place = document.getElementById("app") as HTMLElement;
followTheme();
listenToKeys();
render(<App />, place);
connect().catch((error: unknown) => {
  place.textContent = explanation(error);
});
