/**
 * Characters that steer a terminal, hide, or change the order of what is read: control and format characters such as ESC
 * and those for the direction of text, separators of lines, and halves of pairs.
 */
const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const STEERING_IN_LINES = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Reports whether a text shows otherwise than it reads, apart from its lines and tabs. */
export function isSteering(text: string): boolean {
  return text.search(STEERING_IN_LINES) !== -1;
}

/** Returns the text in one line, with each such character as JSON escapes it. */
export function visibleText(text: string): string {
  return text.replaceAll(STEERING, escaped);
}

/** Returns the text with such characters escaped, and with its lines and tabs. JSON has the same value afterwards. */
export function visibleLines(text: string): string {
  return text.replaceAll(STEERING_IN_LINES, escaped);
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
