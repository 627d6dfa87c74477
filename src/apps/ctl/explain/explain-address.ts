import type { Stored } from '../../../datastore/allocation-store.ts';
import { isReserved } from '../../../ipam/free-ordinals.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { reservedCidrs } from '../../../model/ip-reservation.ts';
import type { IpamConfigurationSpec } from '../../../model/ipam-configuration.ts';
import type { Node } from '../../../model/node.ts';
import { matchesSelector } from '../../../model/selector.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { isEndpointOf, type WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import type { Address } from '../../../net/address.ts';
import { cidrAround, cidrContains, formatCidr, ordinalOf, parseCidr } from '../../../net/cidr.ts';
import { type AddressReport, reportAddress } from '../ipam/address-report.ts';
import { nameOwner } from '../ipam/describe-holder.ts';
import type { PoolRecords } from '../../../ipam/forecast/pool-usage.ts';

export interface AddressScene extends PoolRecords {
  readonly nodes: readonly Node[];
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
  readonly config: IpamConfigurationSpec;
  /** The time of the question, in milliseconds since 1970. */
  readonly nowMs: number;
}

/** The report on an address, with sentences that explain its state. */
export interface ExplainedAddress extends AddressReport {
  readonly reasons: readonly string[];
}

export function explainAddress(scene: AddressScene, address: Address): ExplainedAddress {
  const report = reportAddress(scene, address, { nowMs: scene.nowMs, seconds: scene.config.cooldownSeconds });
  return {
    ...report,
    reasons: report.holder === undefined ? whyNobody(scene, address, report) : whyHeld(scene, report),
  };
}

function whyHeld({ endpoints }: AddressScene, { address, holder }: AddressReport): readonly string[] {
  if (holder === undefined || isTunnelAddress(holder)) return [];
  const endpoint = endpoints.find(({ value }) => isEndpointOf(value, holder))?.value;
  if (endpoint === undefined)
    return ['the holder has no endpoint; run "netplugctl ipam check" to find out whether the address leaked'];
  const name = `${endpoint.metadata.namespace ?? 'default'}/${endpoint.metadata.name}`;
  return endpoint.spec.ipNetworks.some((text) => text.split('/')[0] === address)
    ? [`endpoint ${name} uses it behind interface ${endpoint.spec.interfaceName} of node ${endpoint.spec.node}`]
    : [
        `endpoint ${name} of the holder has ${endpoint.spec.ipNetworks.join(' and ')} instead; run "netplugctl ipam check" to find out whether the address leaked`,
      ];
}

function whyNobody(scene: AddressScene, address: Address, report: AddressReport): readonly string[] {
  const { pools, blocks, reservations, config } = scene;
  const pool = pools.find(({ spec }) => cidrContains(parseCidr(spec.cidr), address));
  if (pool === undefined) {
    const known = pools
      .filter(({ spec }) => parseCidr(spec.cidr).base.family === address.family)
      .map(({ metadata, spec }) => `"${metadata.name}" ${spec.cidr}`);
    return [
      `cannot be assigned: it is outside all pools (${known.length === 0 ? 'none has its IP family' : known.join(', ')})`,
    ];
  }
  const block = blocks.find(({ cidr }) => cidrContains(cidr, address));
  const reserved = reservedCidrs(reservations);
  return [
    placeOf(pool, block, address),
    ...(pool.spec.disabled ? [`cannot be assigned: pool "${pool.metadata.name}" is disabled`] : takersOf(scene, pool)),
    ...(report.reservation === undefined
      ? []
      : [
          `reservation "${report.reservation}" excludes it from automatic assignment; a pod that requests exactly this address gets it`,
        ]),
    ...(block !== undefined && config.strictAffinity
      ? [`strict affinity is on: only ${nameOwner(block.node)} may assign it`]
      : []),
    ...(block === undefined || report.state !== 'free' || isReserved(block, ordinalOf(block.cidr, address), reserved)
      ? []
      : [report.coolingUntil === undefined ? turnOf(block, address) : cooling(report)]),
  ];
}

function placeOf(pool: IpPool, block: IpBlock | undefined, address: Address): string {
  if (block === undefined) {
    const around = formatCidr(cidrAround(address, pool.spec.blockSize));
    return `no node has claimed its block ${around} of pool "${pool.metadata.name}" yet`;
  }
  const id = block.preallocated.get(ordinalOf(block.cidr, address));
  if (id === undefined) return `its block ${formatCidr(block.cidr)} belongs to ${nameOwner(block.node)}`;
  const requested = block.requested.has(ordinalOf(block.cidr, address)) ? '; another node has requested it' : '';
  return `the agent of ${nameOwner(block.node)} has pre-allocated it for the next pod there${requested}`;
}

/** Explains which pods get addresses of the pool without requesting it. */
function takersOf({ nodes }: AddressScene, { metadata, spec }: IpPool): readonly string[] {
  const name = `pool "${metadata.name}"`;
  if (!spec.allowedUses.includes('Workload'))
    return [`cannot be assigned to pods: ${name} is for ${spec.allowedUses.join(', ')} only`];
  if (spec.nodeSelector === 'all()') return [];
  const selected = nodes.filter((node) => matchesSelector(spec.nodeSelector, node.metadata.labels ?? {}));
  const names = selected.slice(0, 5).map((node) => node.metadata.name);
  const more = selected.length > names.length ? ` and ${String(selected.length - names.length)} more` : '';
  const which = names.length === 0 ? 'no node' : `${names.join(', ')}${more}`;
  return [
    `${name} selects ${which} by ${JSON.stringify(spec.nodeSelector)}; pods on other nodes get its addresses only when they request them`,
  ];
}

function cooling({ coolingUntil = '', lastHolder = '' }: AddressReport): string {
  return `it cools down until ${coolingUntil}: meanwhile pods other than ${lastHolder} get it only when they request it, or when no other address is left`;
}

function turnOf({ queue, cidr }: IpBlock, address: Address): string {
  const turn = queue.indexOf(ordinalOf(cidr, address)) + 1;
  return turn === 1
    ? 'it is the next address that its block assigns'
    : `its block assigns ${String(turn - 1)} other free addresses first`;
}
