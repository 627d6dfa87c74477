// How the demonstration talks.
import { styleText } from 'node:util';

export function heading(text: string): void {
  process.stdout.write(`\n${styleText('bold', text)}\n`);
}

export function say(what: string, text: string): void {
  process.stdout.write(`  ${what.padEnd(16)} ${text}\n`);
}

/** Shows a command as a user types it, and its output. */
export function typed(command: string, output: string): void {
  process.stdout.write(styleText('dim', `  $ ${command}\n`));
  if (output.trim() !== '') print(output);
}

export function print(output: string): void {
  process.stdout.write(output.trimEnd().replaceAll(/^/gm, '    ').concat('\n'));
}

export function ms(startMs: number): string {
  return `${(performance.now() - startMs).toFixed(0)} ms`;
}
