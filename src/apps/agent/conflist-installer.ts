import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, untilBeat } from '../../base/clock.ts';
import { reasonAndRemedy, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { AgentFiles } from '../../install/agent-files.ts';
import { checkConflist } from '../../install/check-conflist.ts';
import { contestedBy, extendedBy, withoutProgram } from '../../install/conflist-faults.ts';
import { entryDigests, mergeConflist } from '../../install/merge-conflist.ts';
import type { NodeProblem } from '../../model/node-report.ts';
import { onFile } from '../../install/on-file.ts';
import { type ConflistFolder, findShadow, refuseForeign } from '../../install/other-configurations.ts';
import { NODE_NAME_PLACEHOLDER } from '../../install/places.ts';
import { RepairLimit } from './repair-limit.ts';

/** Interval at which to check whether the node can serve pods, and to try again. */
const RETRY_MS = 1000;
/** Interval at which source and installed file are compared. A mounted ConfigMap follows its object within a minute or so. */
const COMPARE_MS = 5000;
/** Interval at which the configuration of the runtime is read, which only its restart changes. */
const FOLDERS_MS = 60_000;
/** Time for which a program may be missing, as while its installer replaces it, before its entry is left out. */
const MISSING_MS = 300_000;

export interface ConflistPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly files: Pick<AgentFiles, 'put' | 'recordsOf'>;
  /** Returns why the node cannot serve pods, a sentence each. */
  readonly obstacles: () => Promise<readonly string[]>;
  /** Returns the faults of folders that the runtime does not use. */
  readonly findOtherFolders: () => Promise<readonly NodeProblem[]>;
  /** Reports whether no folder of the runtime has the program of that name. */
  readonly isProgramMissing: (program: string) => Promise<boolean>;
}

export interface ConflistPlace extends ConflistFolder {
  /** File with the conflist as runtimes must read it. */
  readonly source: string;
  readonly node: string;
}

/**
 * Installs the conflist when the node can serve pods for the first time, because runtimes report a node as ready from then
 * on. Replaces it when the source changes, and leaves it when the agent ends. What other programs add to it stays; what
 * they change of netplug is repaired, ever more rarely while they do it again.
 */
export class ConflistInstaller {
  readonly #ports: ConflistPorts;
  readonly #place: ConflistPlace;
  readonly #limit: RepairLimit;
  #problem: string | undefined;
  #faults: readonly NodeProblem[] = [];
  #folderFaults: readonly NodeProblem[] = [];
  #foldersReadMs = Number.NEGATIVE_INFINITY;
  #checked: string | undefined;
  /** The source of what this agent has installed. */
  #installed: string | undefined;
  /** When the program of each entry of others was first missed, by the monotonic clock. */
  #missedMs: ReadonlyMap<string, number> = new Map();
  /** Whether the installed file was in pieces when it was read last. */
  #wasBroken = false;

  constructor(ports: ConflistPorts, place: ConflistPlace) {
    this.#ports = ports;
    this.#place = place;
    this.#limit = new RepairLimit(ports.clock);
  }

  /** Reason why the source's conflist is not installed; undefined when it is, and while the node cannot serve yet. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Whether this agent has not installed the conflist yet, as while the node cannot serve pods. */
  get isPending(): boolean {
    return this.#installed === undefined;
  }

  /** What keeps runtimes from using it as it is, or what other programs have made of it. */
  get faults(): readonly NodeProblem[] {
    return this.#faults;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, obstacles } = this.#ports;
    let mayInstall = false;
    while (!signal.aborted) {
      mayInstall ||= (await obstacles()).length === 0;
      await this.#step(mayInstall, signal);
      const isSettled = mayInstall && this.#problem === undefined && !this.#wasBroken;
      await clock.sleep(untilBeat(isSettled ? COMPARE_MS : RETRY_MS, clock), signal).catch(() => undefined);
    }
  }

  async #step(mayInstall: boolean, signal: AbortSignal): Promise<void> {
    const { log } = this.#ports;
    try {
      const text = await this.#readSource();
      const others = mayInstall ? await this.#install(text, signal) : [];
      if (this.#problem !== undefined) log.info('conflist problem resolved');
      this.#problem = undefined;
      const shadow = mayInstall ? await findShadow(this.#place) : undefined;
      this.#find([
        ...(mayInstall ? await this.#otherFolders() : []),
        ...(shadow === undefined ? [] : [shadow]),
        ...(this.#limit.isContested ? [contestedBy(this.#path, this.#limit.repairs)] : []),
        ...this.#describeOthers(others),
      ]);
    } catch (cause) {
      if (signal.aborted) return;
      const problem = `the conflist of "${this.#place.source}" is not installed: ${reasonAndRemedy(cause)}`;
      if (problem !== this.#problem) log.error('conflist not installed', { reason: reasonOf(cause) });
      this.#problem = problem;
    }
  }

  #describeOthers(others: readonly string[]): readonly NodeProblem[] {
    const present = others.filter((type) => !this.#missedMs.has(type));
    const missing = others.filter((type) => this.#missedMs.has(type));
    return [
      ...(missing.length === 0 ? [] : [withoutProgram(this.#path, missing)]),
      ...(present.length === 0 ? [] : [extendedBy(this.#path, present)]),
    ];
  }

  /** Returns those of the types whose programs have been missing for minutes. */
  async #lastingMissing(types: readonly string[]): Promise<readonly string[]> {
    const { clock, isProgramMissing } = this.#ports;
    const nowMs = clock.monotonic();
    const missed = new Map<string, number>();
    for (const type of new Set(types))
      if (await isProgramMissing(type)) missed.set(type, this.#missedMs.get(type) ?? nowMs);
    this.#missedMs = missed;
    return [...missed].flatMap(([type, sinceMs]) => (nowMs - sinceMs < MISSING_MS ? [] : [type]));
  }

  async #otherFolders(): Promise<readonly NodeProblem[]> {
    const { clock, findOtherFolders } = this.#ports;
    if (clock.monotonic() - this.#foldersReadMs >= FOLDERS_MS) {
      this.#folderFaults = await findOtherFolders();
      this.#foldersReadMs = clock.monotonic();
    }
    return this.#folderFaults;
  }

  get #path(): string {
    return join(this.#place.confDir, this.#place.confName);
  }

  /** Logs each kind of fault once, while it lasts. */
  #find(faults: readonly NodeProblem[]): void {
    for (const { code, text } of faults) {
      if (!this.#faults.some((each) => each.code === code))
        this.#ports.log.warning('conflist fault found', { code, reason: text });
    }
    this.#faults = faults;
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

  /** Returns the types of the entries of other programs. */
  async #install(source: string, signal: AbortSignal): Promise<readonly string[]> {
    const { log, files } = this.#ports;
    const path = this.#path;
    const found = await onFile('read', path, async () => readFile(path, 'utf8').catch(ignoreMissing));
    const record = await files.recordsOf(path);
    const isBroken = found !== undefined && tryParseJson(found) === undefined;
    // A file of netplug that cannot be read may be one that another program is writing.
    if (!isBroken || record.length === 0) await refuseForeign(path);
    const isFirstLook = isBroken && record.length > 0 && !this.#wasBroken;
    this.#wasBroken = isBroken;
    if (isFirstLook) return [];
    const leftOut = await this.#lastingMissing(mergeConflist(source, found, { record }).others);
    const { text, isInstalled, others } = mergeConflist(source, found, { record, leftOut });
    const isChanged = !isInstalled && source === this.#installed;
    if (isChanged && leftOut.length === 0 && !this.#limit.tryRepair()) return others;
    if (leftOut.length > 0) log.warning('entries without a program left out of the conflist', { path, leftOut });
    const wanted = isInstalled && found !== undefined ? found : text;
    const entries = entryDigests(source);
    if (await files.put({ kind: 'conflist', path, text: wanted, entries, over: found }, signal)) {
      log.info(isChanged ? 'conflist repaired' : 'conflist installed', { path, others });
    }
    this.#installed = source;
    this.#wasBroken = false;
    return others;
  }
}
