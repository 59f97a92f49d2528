// The page: its tabs, its theme and its status line.

import { get } from "./api.js";
import { readAddress } from "./address.js";
import * as functions from "./functions.js";
import * as images from "./images.js";
import * as optimise from "./optimise.js";

// A tab is a module: name, title, available(page), and create(root, page) that returns { shown() }.
const TABS = [functions, images, optimise];

const status = document.getElementById("status");

function say(words, problem = false) {
  status.textContent = words;
  status.classList.toggle("problem", problem);
}

function setUpTheme() {
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("ndp-theme", next);
  });
}

function setUpTabs(models, pictures) {
  const nav = document.querySelector(".tabs");
  const main = document.querySelector("main");
  const page = { models, images: pictures, say, tab: null };
  const tabs = TABS.filter((tab) => tab.available(page)).map((tab) => {
    const attributes = { type: "button", id: `tab-${tab.name}`, role: "tab", "aria-controls": tab.name };
    const button = document.createElement("button");
    for (const [key, value] of Object.entries(attributes)) button.setAttribute(key, value);
    button.textContent = tab.title;
    const root = document.createElement("section");
    Object.assign(root, { id: tab.name, className: "tab", hidden: true });
    root.setAttribute("role", "tabpanel");
    root.setAttribute("aria-labelledby", button.id);
    nav.append(button);
    main.append(root);
    return { tab, button, root, made: null };
  });
  const open = (chosen) => {
    page.tab = chosen.tab.name;
    for (const one of tabs) {
      one.root.hidden = one !== chosen;
      one.button.setAttribute("aria-selected", String(one === chosen));
      one.button.tabIndex = one === chosen ? 0 : -1;
    }
    chosen.made ??= chosen.tab.create(chosen.root, page);
    chosen.made.shown();
  };
  tabs.forEach((one, index) => {
    one.button.addEventListener("click", () => open(one));
    one.button.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move) return;
      const next = tabs[(index + move + tabs.length) % tabs.length];
      open(next);
      next.button.focus();
    });
  });
  const fromAddress = () => open(tabs.find((one) => one.tab.name === readAddress().tab) ?? tabs[0]);
  addEventListener("hashchange", fromAddress);
  fromAddress();
}

setUpTheme();
try {
  setUpTabs(await get("api/models"), await get("api/images/models"));
} catch (error) {
  say(`The server does not answer: ${error.message}`, true);
}
