import { styleText } from 'node:util';

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

/** Returns a function that colours texts when the screen allows colours. */
export function painterFor({ mayColour }: Screen): Paint {
  return (style, text) => (mayColour ? styleText(style, text, { validateStream: false }) : text);
}

/** Replaces control characters, which could steer the terminal, in texts that netplug does not control. */
export function harmless(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}
