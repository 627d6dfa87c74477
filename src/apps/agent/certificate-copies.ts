import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { reasonAndRemedy, reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { AgentFiles } from '../../install/agent-files.ts';
import { onFile } from '../../install/on-file.ts';

/** A mounted Secret follows its object within a minute or so. */
const PERIOD_MS = 10_000;
/** The key comes last: a copy that is interrupted leaves the old pair together where that is possible. */
const NAMES = ['ca.crt', 'tls.crt', 'tls.key'] as const;

export interface CertificatePorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly files: Pick<AgentFiles, 'put'>;
}

/**
 * Copies the certificates of etcd from a mounted Secret to a folder of the host, where the plugin finds them also while no agent
 * runs, and follows their changes.
 */
export class CertificateCopies {
  readonly #ports: CertificatePorts;
  readonly #from: string;
  readonly #to: string;
  #problem: string | undefined;

  constructor(ports: CertificatePorts, { from, to }: { readonly from: string; readonly to: string }) {
    this.#ports = ports;
    this.#from = from;
    this.#to = to;
  }

  /** Reason why the copies are not those of the Secret; undefined when they are. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Copies what differs. @throws install/failed */
  async copy(signal: AbortSignal): Promise<void> {
    for (const name of NAMES) {
      const source = join(this.#from, name);
      const text = await onFile('read', source, async () => readFile(source, 'utf8'));
      const path = join(this.#to, name);
      if (await this.#ports.files.put({ kind: 'certificate', path, text }, signal))
        this.#ports.log.info('certificate copied', { path });
    }
  }

  /** Copies again whenever the Secret has changed, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    while (!signal.aborted) {
      try {
        await this.copy(signal);
        this.#problem = undefined;
      } catch (cause) {
        if (signal.aborted) return;
        const problem = `the certificates of etcd are not copied from "${this.#from}": ${reasonAndRemedy(cause)}`;
        if (problem !== this.#problem) log.error('certificates not copied', { reason: reasonOf(cause) });
        this.#problem = problem;
      }
      await clock.sleep(PERIOD_MS, signal).catch(() => undefined);
    }
  }
}
