// What is wrong with a page as it is shown: an array of sentences.
(() => {
  const wrong = [];
  const told = (node) => JSON.stringify((node.textContent || "").trim().slice(0, 60));
  const verdict = document.querySelector(".verdict strong");
  if (!verdict || verdict.getBoundingClientRect().bottom > innerHeight) wrong.push("the verdict is not in the first screen");
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  const command = document.querySelector("dl code");
  if (command) {
    getSelection().selectAllChildren(command);
    const copied = getSelection().toString().trim();
    getSelection().removeAllRanges();
    if (copied !== command.textContent) wrong.push(`${told(command)} is copied as ${JSON.stringify(copied)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`it is ${document.documentElement.scrollWidth} wide`);
  const parts = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return getComputedStyle(document.documentElement).colorScheme === "dark" ? [18, 20, 25] : [255, 255, 255];
  };
  const contrast = (element, style, what) => {
    const ink = parts(element.closest("svg") ? style.fill : style.color);
    const [one, other] = [light(ink), light(paper(element))];
    const found = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (found < 4.5) wrong.push(`${what} has a contrast of ${found.toFixed(2)}`);
  };
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("title, style")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()].filter((rect) => rect.width > 0.5 && rect.height > 0.5);
    if (rects.length === 0) continue;
    contrast(element, getComputedStyle(element), told(node));
    const figure = element.closest("td, tbody th") && /^[-+−<>]?[\d.,]+( \S{1,9})?$/.test(node.textContent.trim());
    if (figure && new Set(rects.map((rect) => Math.round(rect.top))).size > 1) wrong.push(`${told(node)} wraps`);
    const svg = element.closest("svg");
    for (const rect of rects) {
      if (rect.left < -1 || rect.right > innerWidth + 1) wrong.push(`${told(node)} is cut at ${rect.left} to ${rect.right}`);
      if (svg) {
        const place = svg.getBoundingClientRect();
        if (rect.left < place.left - 1.5 || rect.right > place.right + 1.5 || rect.bottom > place.bottom + 3 || rect.top < place.top - 3) {
          wrong.push(`${told(node)} is cut by its drawing`);
        }
      }
      boxes.push({ node, rect });
    }
    for (let at = element; at; at = at.parentElement) {
      if (at.scrollWidth > at.clientWidth + 1 && at.clientWidth > 0 && getComputedStyle(at).overflowX !== "visible") {
        wrong.push(`${told(node)} is in what scrolls`);
        break;
      }
      const box = at.getBoundingClientRect();
      if (getComputedStyle(at).overflowY !== "visible" && rects.some((rect) => rect.bottom > box.bottom + 3 || rect.top < box.top - 3)) {
        wrong.push(`${told(node)} is cut by a box`);
        break;
      }
    }
  }
  document.querySelectorAll("svg .bar, .track .bar, .track .interval").forEach((bar) => {
    const place = bar.getBoundingClientRect();
    const inside = ({ node, rect }) => node.parentElement.closest("svg") === bar.closest("svg") &&
      Math.min(place.right, rect.right) - Math.max(place.left, rect.left) > 1.5 && Math.min(place.bottom, rect.bottom) - Math.max(place.top, rect.top) > 5;
    boxes.filter(inside).forEach(({ node }) => wrong.push(`${told(node)} lies on a bar`));
  });
  document.querySelectorAll("td").forEach((cell) => {
    const style = getComputedStyle(cell, "::before");
    if (style.content !== "none" && style.content !== "normal" && cell.offsetWidth > 0) contrast(cell, style, `the head of ${told(cell)}`);
  });
  boxes.sort((one, other) => one.rect.top - other.rect.top);
  boxes.forEach((one, index) => {
    for (let at = index + 1; at < boxes.length && boxes[at].rect.top < one.rect.bottom - 2; at += 1) {
      const other = boxes[at];
      if (one.node === other.node) continue;
      const wide = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
      const high = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
      if (wide > 1.5 && high > 4) wrong.push(`${told(one.node)} lies on ${told(other.node)}`);
    }
  });
  document.querySelectorAll("details").forEach((details) => { details.open = false; });
  return [...new Set(wrong)].slice(0, 20);
})()
