import { at, foundNotAllowed, type Problem, showFound } from '../../../base/problem.ts';
import { isEndpointUrl, URL_RULE } from '../../../config/url.ts';
import { placeholderIn } from '../../../config/value-advice.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import { cidrsOverlap, tryReadCidr } from '../../../net/cidr.ts';
import { findReference, referenceKey } from '../../../kube/objects/reference.ts';
import { containersOf, type NamedDocument, type ReportRemark } from './named-document.ts';
import { checkCertificates } from './certificate-checks.ts';
import { compareWithRelease } from './release-checks.ts';

/** A remark on one document of a manifest. */
export interface ManifestRemark {
  readonly severity: 'error' | 'warning';
  /** Index of the document. */
  readonly document: number;
  readonly problem: Problem;
}

export interface ManifestCheck {
  /** The release of the tool. */
  readonly release: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Returns what would keep a manifest from working: unfilled placeholders, endpoints and certificates that cannot be used, pools
 * that overlap, and differences from the manifest of the release that are no edits but mistakes. Pure.
 */
export function checkManifest(documents: readonly unknown[], check: ManifestCheck): readonly ManifestRemark[] {
  const remarks: ManifestRemark[] = [];
  const report: ReportRemark = ({ document, severity, ...problem }) => {
    remarks.push({ severity: severity ?? 'error', document, problem: { ...problem, code: 'resource/invalid' } });
  };
  const named = documents.flatMap((value, index): NamedDocument[] => {
    const which = findReference(value);
    if (which !== undefined && isRecord(value)) return [{ ...which, index, key: referenceKey(which), value }];
    report({ document: index, path: '', message: 'is no object with kind and metadata.name' });
    return [];
  });
  refuseTwins(named, report);
  for (const { value, index } of named) refusePlaceholdersIn(value, { path: '', document: index, report });
  checkEndpoints(named, report);
  checkPools(named, report);
  checkCertificates(named, { ...check, report });
  compareWithRelease(named, { release: check.release, report });
  return remarks;
}

function refuseTwins(named: readonly NamedDocument[], report: ReportRemark): void {
  for (const [place, { key, index }] of named.entries()) {
    if (named.findIndex((other) => other.key === key) === place) continue;
    report({
      document: index,
      path: 'metadata.name',
      message: `${key} is in the file twice`,
      hint: 'remove one of them',
    });
  }
}

interface Within {
  readonly path: string;
  readonly document: number;
  readonly report: ReportRemark;
}

/** Only texts in angle brackets: `$(VAR)` and templates have a meaning elsewhere. */
function refusePlaceholdersIn(value: unknown, { path, document, report }: Within): void {
  if (typeof value === 'string') {
    // Descriptions of definitions are prose.
    if (path.endsWith('.description')) return;
    const placeholder = placeholderIn(value);
    if (placeholder?.startsWith('<') === true) {
      report({
        document,
        path,
        message: `found the placeholder ${placeholder}`,
        hint: 'replace it with the value of your cluster',
      });
    }
    return;
  }
  const entries = Array.isArray(value) ? [...value.entries()] : isRecord(value) ? Object.entries(value) : [];
  for (const [key, inner] of entries) refusePlaceholdersIn(inner, { path: at(path, key), document, report });
}

/** The endpoints stand in the environment of two programs and in the configuration of the plugin. */
function checkEndpoints(named: readonly NamedDocument[], report: ReportRemark): void {
  const found = named.flatMap((document) =>
    endpointsOf(document).map((each) => ({ ...each, document: document.index })),
  );
  const first = found.find(({ value }) => placeholderIn(value) === undefined);
  for (const { value, path, document } of found) {
    if (placeholderIn(value) !== undefined) continue;
    const bad = value.split(',').find((url) => !isEndpointUrl(url.trim()));
    if (bad !== undefined) {
      const hint = 'separate several URLs with commas';
      report({ document, path, message: foundNotAllowed(bad, URL_RULE), hint });
    } else if (first !== undefined && value !== first.value) {
      const hint = 'write the same endpoints in all places: programs would use different records';
      report({ document, path, message: `found ${showFound(value)}, elsewhere ${showFound(first.value)}`, hint });
    }
  }
}

interface PlacedText {
  readonly value: string;
  readonly path: string;
}

function endpointsOf({ kind, value }: NamedDocument): readonly PlacedText[] {
  if (kind === 'ConfigMap' && isRecord(value['data'])) {
    const { conflist } = value['data'];
    const match = typeof conflist === 'string' ? /"kv_endpoints":\s*"([^"]*)"/.exec(conflist) : null;
    return match === null ? [] : [{ value: match[1] ?? '', path: 'data.conflist' }];
  }
  return containersOf(value).flatMap(({ container, path }) => {
    const variables: readonly unknown[] = Array.isArray(container['env']) ? container['env'] : [];
    return variables.flatMap((variable, index) =>
      isRecord(variable) && variable['name'] === 'KV_ENDPOINTS' && typeof variable['value'] === 'string'
        ? [{ value: variable['value'], path: at(path, 'env', index, 'value') }]
        : [],
    );
  });
}

function checkPools(named: readonly NamedDocument[], report: ReportRemark): void {
  const pools = named.filter(({ kind }) => kind === 'IPPool');
  const ranges = pools.flatMap(({ index, name, value }) => {
    const read = decodeResource(value);
    if ('problems' in read) {
      for (const { path, message, hint } of read.problems) {
        report({ document: index, path, message, ...(hint === undefined ? {} : { hint }) });
      }
      return [];
    }
    const { spec } = read.resource;
    const cidr = 'cidr' in spec && typeof spec.cidr === 'string' ? tryReadCidr(spec.cidr)?.cidr : undefined;
    return cidr === undefined ? [] : [{ index, name, cidr }];
  });
  for (const [place, { index, cidr }] of ranges.entries()) {
    const other = ranges.slice(0, place).find((earlier) => cidrsOverlap(earlier.cidr, cidr));
    if (other === undefined) continue;
    const hint = 'choose ranges that have no address in common';
    report({ document: index, path: 'spec.cidr', message: `overlaps the pool "${other.name}"`, hint });
  }
}
