import { styleText } from 'node:util';

/** What the place that is written to can show. */
export interface Screen {
  /** Characters in a line. */
  readonly columns: number;
  readonly mayColour: boolean;
}

export type Style = 'bold' | 'red' | 'yellow' | 'cyan' | 'dim';
export type Paint = (style: Style, text: string) => string;

/** Colours texts where that may be, and leaves them as they are elsewhere. */
export function painterFor({ mayColour }: Screen): Paint {
  return (style, text) => (mayColour ? styleText(style, text, { validateStream: false }) : text);
}

/** Others choose some texts, and a terminal obeys control characters. */
export function harmless(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}
