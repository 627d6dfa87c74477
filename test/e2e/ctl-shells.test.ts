// Completion in the shells themselves, the tool as a plugin of kubectl, and what it writes to a terminal: only real ones say.
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startCtlDatastore, type CtlDatastore, MAIN } from '../support/ctl-datastores.ts';
import { program } from '../support/components.ts';

const POOL = 'apiVersion: netplug.io/v3\nkind: IPPool\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/16}\n';

let datastore: CtlDatastore;
let folder: string;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  datastore = await startCtlDatastore('kv');
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-shells-'));
  for (const name of ['netplugctl', 'kubectl-netplug', 'kubectl_complete-netplug']) {
    const file = join(folder, name);
    await writeFile(file, `#!/bin/bash\nexec -a ${name} '${process.execPath}' '${MAIN}' "$@"\n`);
    await chmod(file, 0o755);
  }
  env = { PATH: [folder, process.env['PATH']].join(delimiter), HOME: folder, ...datastore.env };
  await datastore.run(['apply', '-f', '-'], { stdin: POOL });
});
afterAll(async () => {
  await datastore[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function inShell(shell: string, script: string): Promise<string> {
  return (await promisify(execFile)(shell, ['-c', script], { env, cwd: folder })).stdout;
}

/** What bash makes of the words it has read, as Readline would ask it. */
function bashScript(words: readonly string[]): string {
  return `source <(netplugctl completion bash)
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${String(words.length - 1)}
    compopt() { :; }
    _netplugctl; printf '%s\\n' "\${COMPREPLY[@]}"`;
}

describe('bash', () => {
  it('completes commands of netplugctl', async () => {
    const said = await inShell('bash', 'source <(netplugctl completion bash); complete -p netplugctl kubectl-netplug');
    expect(said).toBe('complete -F _netplugctl netplugctl\ncomplete -F _netplugctl kubectl-netplug\n');
  });

  it.each([
    [['app'], 'apply\n'],
    [['get', 'ipp'], 'ippools\n'],
    [['get', 'ippools', ''], 'blue\n'],
    [['get', '--output', '=', 'y'], 'yaml\n'],
    [['get', '-o', 'jsonp'], 'jsonpath=\n'],
    [['apply', '-f', 'kubectl-n'], 'kubectl-netplug\n'],
  ])('completes %j', async (words, offered) => {
    expect(await inShell('bash', bashScript(['netplugctl', ...words]))).toBe(offered);
  });
});

describe('fish', () => {
  it.each([
    ['get ippools ', 'blue\n'],
    ['get --output=y', '--output=yaml\n'],
    ['get ipp', 'ippools\tIPPool\n'],
  ])('completes "%s"', async (line, offered) => {
    const script = `netplugctl completion fish | source; complete -C "netplugctl ${line}"`;
    expect(await inShell('fish', script)).toBe(offered);
  });
});

describe('zsh', () => {
  it('completes words with their descriptions', async () => {
    // The widgets of zsh need a terminal: they are replaced by what tells what they were given.
    const script = `compdef() { :; }; _files() { print files; }
      _describe() { print -l -- "\${candidates[@]}"; }
      source <(netplugctl completion zsh)
      words=(netplugctl get ipp); CURRENT=3; _netplugctl
      words=(netplugctl get ippools ''); CURRENT=4; _netplugctl
      words=(netplugctl apply -f ''); CURRENT=4; _netplugctl`;
    const said = (await inShell('zsh', script)).split('\n').filter((line) => line !== '');
    expect(said).toEqual(['ippools:IPPool', 'blue', 'files']);
  });
});

describe('kubectl', () => {
  it('runs netplugctl as a plugin, with "kubectl netplug" in its help', async () => {
    const kubectl = program('kubectl');
    const run = async (...words: string[]): Promise<string> =>
      (await promisify(execFile)(kubectl, ['netplug', ...words], { env })).stdout;
    expect(await run('get', 'ippools', '-o', 'name')).toBe('ippool/blue\n');
    expect(await run('--help')).toMatch(/^Usage: kubectl netplug /);
  });

  it('gets completions in its own format', async () => {
    expect(await inShell('bash', "kubectl_complete-netplug get ippools ''")).toBe('blue\n:4\n');
  });
});

describe('a terminal', () => {
  /** What the command writes to a terminal of 100 columns, and its two outputs are one. */
  async function onTerminal(command: string, more: NodeJS.ProcessEnv = {}): Promise<string> {
    const inside = `stty cols 100; ${command}`;
    const argv = ['--quiet', '--return', '--command', inside, '/dev/null'];
    const { stdout } = await promisify(execFile)('script', argv, { env: { ...env, ...more }, cwd: folder });
    return stdout.replaceAll('\r\n', '\n');
  }

  it('gets coloured output unless NO_COLOR is set; a pipe never does', async () => {
    const piped = await inShell('bash', 'netplugctl ipam map');
    const coloured = await onTerminal('netplugctl ipam map');
    expect(piped).toContain('10.0.0.0/16');
    expect(piped).not.toContain('\u001B');
    expect(coloured).toContain('\u001B[');
    expect(stripVTControlCharacters(coloured)).toBe(piped);
    expect(await onTerminal('netplugctl ipam map', { NO_COLOR: '1' })).toBe(piped);
    expect(await onTerminal('netplugctl ipam map', { NO_COLOR: '' })).toBe(coloured);
  });

  it('shows progress bars of long operations; other outputs show none', async () => {
    await inShell('bash', 'netplugctl datastore lock; netplugctl datastore export > all.json');
    const command = 'netplugctl datastore import -f all.json';
    expect(await onTerminal(command)).toMatch(/\rimporting \[#+\] 0\/0\r +\r/);
    expect(await onTerminal(`${command} 2>&1 | cat`)).toMatch(/^imported and read back/);
  });
});
