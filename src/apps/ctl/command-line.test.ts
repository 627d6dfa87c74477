import { globSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { callCtl } from '../../../test/support/ctl.ts';
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
  it('matches the golden file', async () => {
    await expect(allHelp()).toMatchFileSnapshot('../../../test/golden/netplugctl-help.txt');
  });

  it('lists every command and flag that the manual names', () => {
    const files = ['docs/netplugctl.md', ...globSync('docs/netplugctl/*.md')];
    const page = files.map((file) => readFileSync(file, 'utf8')).join('\n');
    const flags = [...page.matchAll(/(?<=[\s`])--[a-z][a-z-]*/g)].map(([flag]) => flag);
    const commands = [...page.matchAll(/netplugctl [a-z]+/g)].map(([command]) => command);
    const help = allHelp();
    expect(flags).not.toEqual([]);
    expect([...flags, ...commands].filter((word) => !help.includes(word))).toEqual([]);
  });
});

describe('global flags', () => {
  it('are accepted before and after the command', () => {
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

describe('the flags --kubeconfig and --context', () => {
  const read = (line: string): unknown => readCommandLine(line.split(' '), { write: () => undefined }).kubeconfig;

  it.each([
    '--kubeconfig k --context prod get ippools',
    'get ippools --kubeconfig k --context prod',
    'get --kubeconfig=k ippools --context=prod',
  ])('are accepted before, behind and between the words of a command: %s', (line) => {
    expect(read(line)).toEqual({ file: 'k', context: 'prod' });
  });

  it('count as absent when their value is empty', () => {
    expect(read('get ippools --kubeconfig= --context=')).toEqual({ file: undefined, context: undefined });
  });

  it.each(['--kubeconfig k', '--context prod'])('are refused together with --config: %s', async (flags) => {
    expect(await callCtl(['get', 'ippools', '--config', 'c', ...flags.split(' ')], {})).toEqual({
      status: 64,
      out: '',
      err: expect.stringContaining("option '--config <file>' cannot be used with option '--") as string,
    });
  });
});

describe('a command line without a command', () => {
  it.each([
    ['', 'no command is given', 'The commands are apply, '],
    ['ipam', 'no command of ipam is given', 'The commands are show, map, '],
    ['help nope', "unknown command 'nope'", 'The commands are apply, '],
    ['help ipam nope', "unknown command 'nope'", 'The commands are show, map, '],
  ])('says which there are: "%s"', async (line, what, hint) => {
    const { status, out, err } = await callCtl(line.split(' ').filter(Boolean), {});
    expect({ status, out }).toEqual({ status: 64, out: '' });
    expect(err).toContain(`Cannot understand the command line: ${what}\n  hint: ${hint}`);
  });

  it.each(['help version', 'help ipam show', 'ipam help show'])(
    'is answered when it asks for help: %s',
    async (line) => {
      const { status, out } = await callCtl(line.split(' '), {});
      expect(status).toBe(0);
      const path = line.split(' ').filter((word) => word !== 'help');
      expect(out).toMatch(new RegExp(`^Usage: netplugctl ${path.join(' ')} `));
    },
  );
});
