import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, untilBeat } from '../../base/clock.ts';
import { reasonAndRemedy, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { AgentFiles } from '../../install/agent-files.ts';
import { checkConflist } from '../../install/check-conflist.ts';
import { onFile } from '../../install/on-file.ts';
import { NODE_NAME_PLACEHOLDER } from '../../install/places.ts';
import { refuseForeign, warningOfOthers } from '../../install/other-configurations.ts';

/** Interval at which to check whether the node can serve pods, and to try again. */
const RETRY_MS = 1000;
/** Interval at which source and installed file are compared. A mounted ConfigMap follows its object within a minute or so. */
const COMPARE_MS = 5000;

export interface ConflistPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly files: Pick<AgentFiles, 'put'>;
  /** Returns why the node cannot serve pods, a sentence each. */
  readonly obstacles: () => Promise<readonly string[]>;
}

export interface ConflistPlace {
  /** File with the conflist as runtimes must read it. */
  readonly source: string;
  readonly node: string;
  readonly confDir: string;
  readonly confName: string;
}

/**
 * Installs the conflist when the node can serve pods for the first time, because runtimes report a node as ready from then
 * on. Replaces it when the source changes or the installed file was changed or removed, and leaves it when the agent ends.
 */
export class ConflistInstaller {
  readonly #ports: ConflistPorts;
  readonly #place: ConflistPlace;
  #problem: string | undefined;
  #warning: string | undefined;
  #checked: string | undefined;

  constructor(ports: ConflistPorts, place: ConflistPlace) {
    this.#ports = ports;
    this.#place = place;
  }

  /** Reason why the source's conflist is not installed; undefined when it is, and while the node cannot serve yet. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Configuration that runtimes read instead; undefined when they read this one. */
  get warning(): string | undefined {
    return this.#warning;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, obstacles } = this.#ports;
    let mayInstall = false;
    while (!signal.aborted) {
      mayInstall ||= (await obstacles()).length === 0;
      await this.#step(mayInstall, signal);
      const isInstalled = mayInstall && this.#problem === undefined;
      await clock.sleep(untilBeat(isInstalled ? COMPARE_MS : RETRY_MS, clock), signal).catch(() => undefined);
    }
  }

  async #step(mayInstall: boolean, signal: AbortSignal): Promise<void> {
    const { log } = this.#ports;
    const { confDir, confName } = this.#place;
    try {
      const text = await this.#readSource();
      if (mayInstall) await this.#install(text, signal);
      if (this.#problem !== undefined) log.info('conflist problem resolved');
      this.#problem = undefined;
      const warning = mayInstall ? await warningOfOthers(confDir, confName) : undefined;
      if (warning !== undefined && warning !== this.#warning) log.warning('conflist shadowed', { reason: warning });
      this.#warning = warning;
    } catch (cause) {
      if (signal.aborted) return;
      const problem = `the conflist of "${this.#place.source}" is not installed: ${reasonAndRemedy(cause)}`;
      if (problem !== this.#problem) log.error('conflist not installed', { reason: reasonOf(cause) });
      this.#problem = problem;
    }
  }

  /** Reads and checks the source, also before the node can serve, so that a mistake is reported at once. */
  async #readSource(): Promise<string> {
    const { source, node } = this.#place;
    const template = await onFile('read', source, async () => readFile(source, 'utf8'));
    const text = template.replaceAll(NODE_NAME_PLACEHOLDER, JSON.stringify(node).slice(1, -1));
    if (text === this.#checked) return text;
    const warnings = checkConflist(text, `file "${source}"`);
    for (const warning of warnings) this.#ports.log.warning('conflist problem found', { problem: warning });
    this.#checked = text;
    return text;
  }

  async #install(text: string, signal: AbortSignal): Promise<void> {
    const { log, files } = this.#ports;
    const path = join(this.#place.confDir, this.#place.confName);
    await refuseForeign(path);
    if (await files.put({ kind: 'conflist', path, text }, signal)) log.info('conflist installed', { path });
  }
}
