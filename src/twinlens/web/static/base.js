// What every page does: copy a command.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
// A form whose answer takes seconds says so, and is not sent twice.
for (const form of document.querySelectorAll("form[data-takes]")) {
  form.addEventListener("submit", () => {
    const button = form.querySelector("button"), before = button.textContent;
    setTimeout(() => { button.disabled = true; button.textContent = form.dataset.takes; });
    addEventListener("pageshow", () => { button.disabled = false; button.textContent = before; }, { once: true });
  });
}
export const formToken = () => document.querySelector("meta[name=twinlens-form]").content;
