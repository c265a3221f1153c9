// Why a URL has (not) been fetched: the same answer as `shoal why`.

import { el, put } from "../dom.js";
import { live } from "../live.js";
import { chip, chooseJob, field, select, sentences } from "../parts.js";

export function show(view) {
  const wish = { url: view.params.get("url") ?? "", job: view.params.get("job") ?? "" };
  const url = el("input", {
    type: "search",
    value: wish.url,
    placeholder: "https://shop.example/page",
    inputmode: "url",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
  });
  const jobs = select([["", "all jobs"], ...(wish.job ? [[wish.job, wish.job]] : [])], wish.job, () => {});
  const answers = el("div", { class: "answers", "aria-live": "polite" });
  const submit = (event) => {
    event.preventDefault();
    view.remember({ url: url.value.trim(), job: jobs.value });
    find();
  };
  const find = () =>
    view.attempt(async () => {
      put(answers);
      const found = await view.get("/api/why", { url: url.value.trim(), job: jobs.value });
      put(answers, found.answers.map(answerCard));
    });
  const form = el(
    "form",
    { class: "filters why", role: "search", on: { submit } },
    field("URL", url),
    field("job", jobs),
    el("button", { class: "primary", type: "submit" }, "ask why"),
  );
  put(view.root, el("p", { class: "quiet" }, "Where a page is, and what it is waiting for."), form, answers);
  const update = (now) => chooseJob(jobs, now.jobs);
  view.listen("overview", update);
  if (live.overview) update(live.overview);
  if (wish.url) find();
  else url.focus();
}

function answerCard(answer) {
  const [first, ...rest] = answer.causes.map((cause) => cause.sentence);
  return el(
    "section",
    { class: "card answer", "aria-label": `Answer for job ${answer.job}` },
    el(
      "p",
      { class: "answer-head" },
      chip(answer.place),
      el("span", { class: "url" }, answer.url),
      el("span", { class: "quiet" }, `job ${answer.job}`),
    ),
    el("p", { class: "answer-first" }, first),
    rest.length ? sentences(rest) : null,
  );
}
