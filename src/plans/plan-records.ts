import { mkdir, readFile, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { removeDrafts, writeFileAtomically } from '../base/atomic-file.ts';
import { sha256Of } from '../base/sha256.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { tryParseJson } from '../base/try-parse-json.ts';
import type { Plan } from './plan.ts';

/** Stores the progress of plans, one text per name. */
export interface PlanRecords {
  /** Returns undefined when there is no text of that name. */
  readonly load: (name: string) => Promise<string | undefined>;
  /** Replaces the text atomically: after a crash, either the old or the new text is stored. */
  readonly save: (name: string, text: string) => Promise<void>;
  /** Removes the text. Idempotent. */
  readonly remove: (name: string) => Promise<void>;
}

/**
 * `begun` before a step is carried out, `done` after it; `earlier` after it was done by a plan that this one continues, whose
 * later steps may change the same object; `undoing` before a step is undone.
 */
const STEP_STATES = ['begun', 'done', 'earlier', 'undoing'] as const;
type StepState = (typeof STEP_STATES)[number];

/** Progress of a plan. */
export interface PlanRecord<A extends object> {
  /** Digest of the plan. */
  readonly id: string;
  readonly plan: Plan<A>;
  readonly direction: 'forward' | 'undo';
  /** By position in the plan. A step without an entry was not begun. */
  readonly steps: Readonly<Record<string, StepState>>;
  /** Whether no step is left for this program, so that there is nothing to resume. */
  readonly isOver: boolean;
}

const FORMAT = 1;
const SAVE_ATTEMPTS = 20;

const recordSchema = v.object({
  format: v.literal(FORMAT),
  id: v.string(),
  plan: v.object({ stages: v.array(v.unknown()), notes: v.array(v.string()) }),
  direction: v.picklist(['forward', 'undo']),
  steps: foreignRecord(v.string(), v.picklist(STEP_STATES)),
  isOver: v.boolean(),
});

export function recordId<A extends object>(plan: Plan<A>): string {
  return sha256Of(JSON.stringify(plan)).slice(0, 16);
}

/** Reads the record of that name. @throws plan/outdated for a damaged record, cli/version-mismatch for one of a newer release */
export async function readPlanRecord<A extends object>(
  records: PlanRecords,
  name: string,
): Promise<PlanRecord<A> | undefined> {
  const text = await records.load(name);
  if (text === undefined) return undefined;
  const raw = tryParseJson(text);
  const newer = v.safeParse(v.looseObject({ format: v.pipe(v.number(), v.minValue(FORMAT + 1)) }), raw);
  if (newer.success) {
    const format = String(newer.output.format);
    throw new NetplugError(
      'cli/version-mismatch',
      `Cannot resume the plan "${name}": its record has format ${format}, this release reads ${String(FORMAT)}`,
      { hint: 'Finish it with the release that began it' },
    );
  }
  const read = v.safeParse(recordSchema, raw);
  // A matching digest proves that this program wrote the plan, so its steps have the right type.
  if (read.success && recordId(read.output.plan as Plan<A>) === read.output.id) return read.output as PlanRecord<A>;
  throw new NetplugError('plan/outdated', `Cannot resume the plan "${name}": its record is damaged`, {
    hint: 'Run the command with --dry-run and compare its new plan with the cluster',
  });
}

export async function writePlanRecord<A extends object>(
  records: PlanRecords,
  name: string,
  record: PlanRecord<A>,
): Promise<void> {
  await records.save(name, `${JSON.stringify({ format: FORMAT, ...record }, undefined, 2)}\n`);
}

/** Stores each record in a file of the folder that only its owner can read. */
export function filePlanRecords(folder: string): PlanRecords {
  const path = (name: string): string => join(folder, `${name}.json`);
  return {
    load: async (name) => readFile(path(name), 'utf8').catch(ignoreMissing),
    save: async (name, text) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          // Parent folders have the usual permissions.
          await mkdir(dirname(folder), { recursive: true });
          await mkdir(folder, { recursive: true, mode: 0o700 });
          await writeFileAtomically(path(name), { text, mode: 0o600 });
          return;
        } catch (cause) {
          // The end of another plan removes the folder when it is empty.
          if (errnoOf(cause) !== 'ENOENT' || attempt === SAVE_ATTEMPTS) throw cause;
        }
      }
    },
    remove: async (name) => {
      await rm(path(name), { force: true });
      await removeDrafts(path(name)).catch(ignoreMissing);
      // Fails while the folder holds other records.
      await rmdir(folder).catch(() => undefined);
    },
  };
}

/** Stores records for the lifetime of the process. */
export function memoryPlanRecords(): PlanRecords {
  const texts = new Map<string, string>();
  return {
    load: async (name) => Promise.resolve(texts.get(name)),
    save: async (name, text) => Promise.resolve(void texts.set(name, text)),
    remove: async (name) => Promise.resolve(void texts.delete(name)),
  };
}
