// Dark or light: as the system says, or as somebody chose on this device.
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const read = (): Theme => {
  try {
    const stored = localStorage.getItem("theme");
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto";
  }
};

export const theme = signal<Theme>(read());
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  try {
    if (theme.value === "auto") localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme.value);
  } catch {
    // It holds as long as the page is open.
  }
});

export const turn = (): void => {
  theme.value = theme.value === "auto" ? "dark" : theme.value === "dark" ? "light" : "auto";
};
