import * as v from 'valibot';
import { NetplugError } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { type Address, tryParseAddress } from '../../../net/address.ts';
import type { DocumentSource } from '../documents.ts';

/** One address to be freed; only that allocation of it when its id is known. */
export interface ReleaseTarget {
  readonly address: Address;
  readonly allocation: string | undefined;
}

/** Part of the output of `ipam check -o json` that matters here. */
const Report = v.object({
  findings: v.array(v.object({ id: v.string(), subject: v.string(), allocation: v.optional(v.string()) })),
});

/** The leaked addresses of a report, each with the allocation that was found leaked. @throws cli/usage */
export function leakedIn({ name, text }: DocumentSource): readonly ReleaseTarget[] {
  const report = v.safeParse(Report, tryParseJson(text));
  if (!report.success) {
    throw new NetplugError(
      'cli/usage',
      `Cannot read "${name}" as a report: it is not what "ipam check -o json" prints`,
      {
        hint: 'Make one with "netplugctl ipam check -o json > report.json"',
      },
    );
  }
  return report.output.findings.flatMap(({ id, subject, allocation }) => {
    const address = tryParseAddress(subject);
    return id === 'ipam/leaked-address' && address !== undefined && allocation !== undefined
      ? [{ address, allocation }]
      : [];
  });
}
