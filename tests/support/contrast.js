// What `color-contrast` of axe finds, from styles alone: axe asks for each text what lies on it, which takes
// three quarters of its time. Returns the texts that are too pale, as axe's own rule would name them.
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const colours = new Map(), grounds = new Map([[null, [255, 255, 255]]]), opacities = new Map([[null, 1]]);
  const rgba = (colour) => {
    if (!colours.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      colours.set(colour, [...pen.getImageData(0, 0, 1, 1).data]);
    }
    return colours.get(colour);
  };
  const over = ([r, g, b, a], under, opacity) =>
    [r, g, b].map((each, i) => under[i] + (each - under[i]) * (a / 255) * opacity);
  const opacityOf = (element) => {
    if (!opacities.has(element))
      opacities.set(element, opacityOf(element.parentElement) * getComputedStyle(element).opacity);
    return opacities.get(element);
  };
  const groundOf = (element) => {
    if (!grounds.has(element)) {
      const own = rgba(getComputedStyle(element).backgroundColor);
      grounds.set(element, over(own, groundOf(element.parentElement), opacityOf(element)));
    }
    return grounds.get(element);
  };
  // Source: WCAG 2.2, relative luminance and contrast ratio, success criterion 1.4.3.
  const light = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  const judge = (element) => {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    const seen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!seen || box.width <= 1 || box.height <= 1 || found.has(element)) return;
    const text = (element.matches("input, textarea, select") ? element.value : element.textContent).trim();
    if (text.length < 2 || !/[\p{L}\p{N}]/u.test(text)) return; // a dot between words, an arrow
    if (element.closest(":disabled, [aria-disabled=true]") || element.closest("label")?.control?.disabled) return;
    const ground = groundOf(element);
    const shades = [over(rgba(style.color), ground, opacityOf(element)), ground].map(light).sort((a, b) => b - a);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((shades[0] + 0.05) / (shades[1] + 0.05) < (isLarge ? 3 : 4.5)) found.add(element);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (texts.currentNode.data.trim()) judge(texts.currentNode.parentElement);
  for (const each of document.querySelectorAll("input, textarea, select")) if (each.value) judge(each);
  return [...found].map((each) => `color-contrast: ${each.outerHTML.slice(0, 200)}`);
}
