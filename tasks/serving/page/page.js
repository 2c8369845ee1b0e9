// Offsets of answers count code points, as in Python; strings of JavaScript count UTF-16 units.
const EXAMPLES = [
  ["A poet", "Which poet composed the ballad Kelbaglow?",
    "Old letters mention the ballad Kelbaglow by Ruddosan and the gentle song Vamsofey."],
  ["A bridge", "Who designed the iron bridge?",
    "The iron bridge over the river Wend was opened in 1878. It was designed by Ada Lindqvist, who " +
    "had built two smaller bridges upstream. A flood in 1902 carried away the stone bridge beside it."],
  ["No answer", "When was the lighthouse built?",
    "The harbour of Osmere has two piers and a lighthouse. Its fishing boats leave before dawn and " +
    "return at noon. The market beside it is open on Fridays."],
];
const $ = (selector, parent = document) => parent.querySelector(selector);
const form = $("#form"), result = $("#result"), passage = $("#context"), question = $("#question");

function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

function percent(probability) {
  return probability < 0.001 ? "< 0.1 %" : `${(100 * probability).toFixed(1)} %`;
}

async function login() {
  $("#login").showModal();
  await new Promise((resolve) => $("#login").addEventListener("close", resolve, { once: true }));
  sessionStorage.token = $("#token").value;
}

async function send(path, body) {
  const headers = { "content-type": "application/json" };
  if (sessionStorage.token) headers.authorization = `Bearer ${sessionStorage.token}`;
  const options = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(path, options).catch(() => {
    throw new Error("The server does not respond. Try again in a few seconds.");
  });
  if (response.status === 401) {
    await login();
    return send(path, body);
  }
  const reply = await response.json();
  if (!response.ok) throw new Error(reply.error);
  return reply;
}

// The tokens with the model's attention as a background; the answer is marked.
function show(target, text, tokens, answer) {
  const points = [...text], parts = document.createDocumentFragment();
  const mark = element("mark", "");
  let position = 0;
  const add = (end, weight) => {
    if (end <= position) return;
    const inside = answer && position >= answer.start && position < answer.end;
    if (inside && !mark.parentNode) parts.append(mark);
    const part = element(weight ? "i" : "span", points.slice(position, end).join(""));
    if (weight) part.style.setProperty("--weight", weight);
    (inside ? mark : parts).append(part);
    position = end;
  };
  const borders = answer?.answer ? [answer.start, answer.end] : [];
  for (const [start, end, weight] of [...tokens, [points.length, points.length, 0]]) {
    for (const border of borders) if (border > position && border <= start) add(border, 0);
    add(start, 0);
    add(end, weight);
  }
  target.replaceChildren(parts);
  if (mark.isConnected) mark.scrollIntoView({ block: "nearest" });
}

function showReply(asked, reply) {
  result.replaceChildren($("#answered").content.cloneNode(true));
  const [best, ...others] = reply.answers, text = $(".passage", result);
  $(".answer", result).textContent = best.answer || "No answer in this passage";
  $(".answer", result).classList.toggle("none", !best.answer);
  $("meter", result).value = best.probability;
  $(".certainty b", result).textContent = percent(best.probability);
  show(text, asked.context, reply.attention.context, best);
  show($(".attended span", result), asked.question, reply.attention.question, null);
  for (const row of others) {
    const button = element("button", "", { type: "button" });
    button.setAttribute("aria-pressed", "false");
    button.append(element("span", row.answer || "No answer"),
      element("meter", "", { min: 0, max: 1, value: row.probability, ariaLabel: "Probability" }),
      element("b", percent(row.probability)));
    button.onclick = () => {
      const pressed = button.getAttribute("aria-pressed") === "false";
      for (const other of result.querySelectorAll(".others button")) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", pressed);
      show(text, asked.context, reply.attention.context, pressed ? row : best);
    };
    const item = element("li", "");
    item.append(button);
    $(".others", result).append(item);
  }
  $("#model").textContent = `Answered by ${reply.model}, version ${reply.version}`;
  if (reply.keeps_feedback) takeFeedback(asked, reply, text);
}

function takeFeedback(asked, reply, text) {
  const feedback = $(".feedback", result), correct = $("#correct");
  const [best] = reply.answers;
  let selected = null; // the selected answer and its start
  const give = async (right, answer, start) => {
    const body = { ...asked, right, answer, version: reply.version, ...(answer && start >= 0 && { start }) };
    try {
      await send("feedback", body);
      for (const part of [...feedback.children]) part.hidden = part.tagName !== "OUTPUT";
      $("output", feedback).textContent = "Thank you. The next training can learn from it.";
    } catch (error) {
      $("output", feedback).textContent = error.message;
    }
  };
  feedback.hidden = false;
  $(".right", feedback).onclick = () => give(true, best.answer, best.start);
  $(".wrong", feedback).onclick = () => {
    $(".correction", feedback).hidden = false;
    $(".wrong", feedback).setAttribute("aria-expanded", "true");
    correct.focus();
  };
  $(".none", feedback).onclick = () => give(false, "", -1);
  feedback.onsubmit = (event) => {
    event.preventDefault();
    if (correct.value) give(false, correct.value, selected?.answer === correct.value ? selected.start : -1);
  };
  text.onmouseup = text.ontouchend = text.onkeyup = () => {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed || !text.contains(selection.anchorNode)) return;
    const range = selection.getRangeAt(0), before = range.cloneRange();
    before.selectNodeContents(text);
    before.setEnd(range.startContainer, range.startOffset);
    const answer = range.toString(), lead = answer.length - answer.trimStart().length;
    selected = { answer: answer.trim(), start: [...before.toString()].length + lead };
    correct.value = selected.answer;
  };
}

form.onsubmit = async (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  const asked = { question: question.value, context: passage.value };
  form.ariaBusy = "true";
  try {
    showReply(asked, await send("explain", asked));
    if (innerWidth < 896) result.scrollIntoView({ behavior: "smooth" });
  } catch (error) {
    result.replaceChildren(element("p", error.message, { className: "error" }));
  }
  form.ariaBusy = "false";
};
passage.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
};
for (const [name, asked, context] of EXAMPLES) {
  const button = element("button", name, { type: "button" });
  button.onclick = () => {
    [question.value, passage.value] = [asked, context];
    form.requestSubmit();
  };
  $("#examples").append(button);
}
