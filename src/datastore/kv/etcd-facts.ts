import * as v from 'valibot';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { clockSkewMs, type Exchange } from '../clock-skew.ts';
import type { DatastoreReport } from '../inspector.ts';

/** Answers of etcd on its pages. */
export interface EtcdPages {
  readonly version: string;
  readonly health: string;
  readonly metrics: string;
  readonly exchange: Exchange;
}

const Version = v.object({ etcdserver: v.string() });
const Health = v.object({ health: v.string(), reason: v.optional(v.string()) });

export function readEtcdPages({ version, health, metrics, exchange }: EtcdPages): DatastoreReport {
  const server = v.safeParse(Version, tryParseJson(version));
  const state = v.safeParse(Health, tryParseJson(health));
  const sizeBytes = gauge(metrics, 'etcd_mvcc_db_total_size_in_bytes');
  const quotaBytes = gauge(metrics, 'etcd_server_quota_backend_bytes');
  const skewMs = clockSkewMs(exchange);
  return {
    server: `etcd ${server.success ? server.output.etcdserver : 'of unknown version'}`,
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(quotaBytes === undefined ? {} : { quotaBytes }),
    alarms: state.success && state.output.health !== 'true' ? [unhealthy(state.output.reason)] : [],
    ...(skewMs === undefined ? {} : { skewMs }),
    missingKinds: [],
    unpublishedNodes: [],
    differingKinds: [],
    missingRights: [],
  };
}

function unhealthy(reason: string | undefined): string {
  const why = (reason ?? '') === '' ? 'it has raised an alarm, or has no leader' : String(reason);
  return `etcd calls itself unhealthy: ${why}`;
}

/** Returns a metric without labels from the text format of Prometheus. */
function gauge(metrics: string, name: string): number | undefined {
  const text = new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1];
  return text === undefined || Number.isNaN(Number(text)) ? undefined : Number(text);
}
