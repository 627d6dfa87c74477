import { hash } from 'node:crypto';

/** The SHA-256 of the text in UTF-8: 64 hexadecimal digits. */
export function sha256Of(text: string): string {
  return hash('sha256', text);
}
