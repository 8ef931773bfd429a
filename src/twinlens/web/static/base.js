// What every page does: copy a command.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
export const formToken = () => document.querySelector("meta[name=twinlens-form]").content;
