// The login page. A token in the address (#token=…) is filled in, taken out of the address, and used at once.

const form = document.getElementById("login");
const field = document.getElementById("token");
const refusal = document.getElementById("refusal");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  refusal.hidden = true;
  try {
    const answer = await fetch("/login", {
      method: "POST",
      body: new URLSearchParams({ token: field.value }),
      credentials: "same-origin",
    });
    if (answer.ok) return enter();
    const body = await answer.json().catch(() => ({}));
    refuse(body.error ?? "this is not the token");
  } catch {
    refuse("the dashboard's server cannot be reached");
  }
});

function enter() {
  // Without a session this page stands in for the one that was asked for.
  if (location.pathname === "/") return location.reload();
  location.replace(`/${placeLeft()}`);
}

/** Where the reader was when the session ended. */
function placeLeft() {
  try {
    const place = sessionStorage.getItem("shoal.after") ?? "";
    sessionStorage.removeItem("shoal.after");
    return place.startsWith("#/") ? place : "";
  } catch {
    return "";
  }
}

function refuse(why) {
  refusal.textContent = why;
  refusal.hidden = false;
  field.select();
}

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname);
  field.value = token;
  form.requestSubmit();
} else field.focus();
