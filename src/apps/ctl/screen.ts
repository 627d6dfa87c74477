import { randomInt } from 'node:crypto';
import { styleText } from 'node:util';
import { visibleLines } from '../../base/visible-text.ts';

/** The capabilities of the output. */
export interface Screen {
  /** Characters per line. */
  readonly columns: number;
  readonly mayColour: boolean;
}

/** An output of which nothing is known. */
export const PLAIN: Screen = { columns: 80, mayColour: false };

export type Style = 'bold' | 'red' | 'yellow' | 'cyan' | 'dim';
export type Paint = (style: Style, text: string) => string;

/**
 * Stands before and behind what steers the terminal on purpose. No text from elsewhere contains it, because it is another one
 * in each run. Programs that strip colours strip it as well.
 */
const OWN = `\u001b[${Array.from({ length: 6 }, () => String(randomInt(1000, 10_000))).join(';')}m`;

/** Marks a control sequence of netplug's own, for `forTerminal`. */
export function ownSequence(sequence: string): string {
  return `${OWN}${sequence}${OWN}`;
}

/** Returns a function that colours texts when the screen allows colours. */
export function painterFor({ mayColour }: Screen): Paint {
  return (style, text) => {
    if (!mayColour) return text;
    const [on = '', off = ''] = styleText(style, '|', { validateStream: false }).split('|');
    return `${ownSequence(on)}${text}${ownSequence(off)}`;
  };
}

/**
 * Returns what may leave the tool for a terminal: netplug's own control sequences as they are, and those of any
 * other origin escaped.
 */
export function forTerminal(text: string): string {
  return text
    .split(OWN)
    .map((part, index) => (index % 2 === 1 ? part : visibleLines(part)))
    .join('');
}
