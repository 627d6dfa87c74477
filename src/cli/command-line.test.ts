import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { buildParser, readCommandLine } from './command-line.ts';

/** The help of every command, in the order in which the program lists them. */
function allHelp(): string {
  let text = '';
  const program = buildParser(
    (part) => (text += part),
    () => undefined,
  );
  const tell = (command: Command, path: string): void => {
    text += `$ ${path} --help\n`;
    command.outputHelp();
    text += '\n';
    for (const each of command.commands) tell(each, `${path} ${each.name()}`);
  };
  tell(program, 'netplugctl');
  return text;
}

describe('the help', () => {
  it('is the one on record', async () => {
    await expect(allHelp()).toMatchFileSnapshot('../../test/golden/netplugctl-help.txt');
  });

  it('has every command and flag that the page about the program names', () => {
    const page = readFileSync('docs/netplugctl.md', 'utf8');
    const flags = [...page.matchAll(/(?<=[\s`])--[a-z][a-z-]*/g)].map(([flag]) => flag);
    const commands = [...page.matchAll(/netplugctl [a-z]+/g)].map(([command]) => command);
    const help = allHelp();
    expect(flags).not.toEqual([]);
    expect([...flags, ...commands].filter((word) => !help.includes(word))).toEqual([]);
  });
});

describe('global flags', () => {
  it('may stand before and behind the command', () => {
    for (const argv of [
      ['--config', 'f', 'version'],
      ['version', '--config', 'f'],
    ]) {
      expect(readCommandLine(argv, { write: () => undefined })).toMatchObject({
        config: 'f',
        asked: { command: { path: ['version'] } },
      });
    }
  });
});
