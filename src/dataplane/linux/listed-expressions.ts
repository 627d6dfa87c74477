/** Expressions of rules of any program, as readable fields. Pure. */
import { ownValue } from '../../base/own-value.ts';
import { type HostExpression, NOT_READ } from '../packet-tables.ts';
import { type Attributes, attributesIn, attributeText, decodeAttributes, textOfAttribute } from './netlink.ts';
import { be32Of, listedAttributes } from './nft-messages.ts';
import { NFTA_DATA, NFTA_EXPR, NFTA_VERDICT } from './nft-numbers.ts';
import { matchFields } from './xt-matches.ts';

/**
 * Fields by expression, in the order of their attributes, which the kernel numbers from 1. A field is a number of 32 bits unless
 * a suffix says otherwise: a size in bits, `$` text, `=` bytes or a verdict, `@` and a list of names. `-` is left out.
 */
const FIELDS: Readonly<Record<string, string>> = {
  bitwise: 'from to length mask= xor= operation data=',
  byteorder: 'from to operation length size',
  cmp: 'from comparison@comparisons value=',
  connlimit: 'count flags',
  counter: 'bytes:64 packets:64',
  ct: 'to key@ct direction:8 from',
  dup: 'address device',
  dynset: 'set$ - operation from data timeout:64 - - flags',
  exthdr: 'to type:8 offset length flags operation from',
  fib: 'to result flags',
  flow_offload: 'table$',
  fwd: 'device address family',
  hash: 'from to length modulus seed offset type',
  immediate: 'to value=',
  last: '',
  limit: 'rate:64 unit:64 burst type flags',
  log: 'group:16 prefix$ bytes threshold:16 level flags',
  lookup: 'set$ from to - flags',
  masq: 'flags firstPort lastPort',
  match: 'name$ revision',
  meta: 'to key@meta from',
  nat: 'type family firstAddress lastAddress firstPort lastPort flags',
  notrack: '',
  numgen: 'to modulus type offset',
  objref: 'type name$ from set$',
  osf: 'to ttl:8 flags',
  payload: 'to base@bases offset length from checksum checksumOffset flags',
  queue: 'first:16 total:16 flags:16 from',
  quota: 'bytes:64 flags - consumed:64',
  range: 'from comparison@comparisons first= last=',
  redir: 'firstPort lastPort flags',
  reject: 'type code:8',
  rt: 'to key',
  socket: 'key to level',
  synproxy: 'mss:16 scale:8 flags',
  target: 'name$ revision',
  tproxy: 'family address port',
  tunnel: 'key to mode',
  xfrm: 'to key direction:8 number',
};

const NFTA_MATCH = { NAME: 1, REVISION: 2, INFO: 3 } as const;

/** Names by number. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  bases: 'link network transport inner tunnel'.split(' '),
  comparisons: '== != < <= > >='.split(' '),
  ct: 'state direction status mark secmark expiration helper family source destination protocol'.split(' '),
  meta: (
    'length ethertype priority mark iif oif iifname oifname iiftype oiftype skuid skgid nftrace rtclassid secmark nfproto l4proto ' +
    'ibrname obrname pkttype cpu iifgroup oifgroup cgroup random secpath iifkind oifkind'
  ).split(' '),
};

const VERDICTS: Readonly<Record<number, string>> = {
  0: 'drop',
  1: 'accept',
  3: 'queue',
  [-1]: 'continue',
  [-2]: 'break',
  [-3]: 'jump',
  [-4]: 'goto',
  [-5]: 'return',
};

/** Decodes the expressions of a rule. Those that are not known have the content `not read`. */
export function decodeExpressions(list: Buffer): readonly HostExpression[] {
  return Array.from(listedAttributes(list), (attributes) => {
    const kind = textOfAttribute(attributes, NFTA_EXPR.NAME);
    const fields = ownValue(FIELDS, kind);
    if (fields === undefined) return { kind, content: NOT_READ };
    const data = attributesIn(attributes, NFTA_EXPR.DATA);
    const found = fields.split(' ').flatMap((field, index) => {
      const payload = data.get(index + 1);
      return payload === undefined || field === '-' ? [] : [decodeField(field, payload)];
    });
    const more = kind === 'match' ? matchIn(data) : {};
    return { kind, ...Object.fromEntries(found), ...more };
  });
}

function matchIn(data: Attributes): Readonly<Record<string, number>> {
  const info = data.get(NFTA_MATCH.INFO);
  if (info === undefined) return {};
  return matchFields(textOfAttribute(data, NFTA_MATCH.NAME), be32Of(data.get(NFTA_MATCH.REVISION)), info);
}

function decodeField(field: string, payload: Buffer): readonly [name: string, value: string | number] {
  const [, name = '', how = '', list = ''] = /^(\w+)(\$|=|:\d+|@)?(\w*)$/.exec(field) ?? [];
  if (how === '$') return [name, attributeText(payload)];
  if (how === '=') return [name, decodeData(payload)];
  if (how === '@') return [name, ownValue(NAMES, list)?.[be32Of(payload)] ?? `${NOT_READ}: ${String(be32Of(payload))}`];
  const bytes = how === '' ? 4 : Number(how.slice(1)) / 8;
  if (payload.length < bytes) return [name, NOT_READ];
  // Counters may be greater than what a number holds exactly.
  return [name, bytes === 8 ? String(payload.readBigUInt64BE()) : payload.readUIntBE(0, bytes)];
}

/** Returns bytes in hexadecimal digits, or a verdict. */
export function decodeData(payload: Buffer): string {
  const data = decodeAttributes(payload);
  const verdict = data.get(NFTA_DATA.VERDICT);
  if (verdict === undefined) return (data.get(NFTA_DATA.VALUE) ?? Buffer.alloc(0)).toString('hex');
  const parts = decodeAttributes(verdict);
  const code = be32Of(parts.get(NFTA_VERDICT.CODE)) | 0;
  const chain = parts.get(NFTA_VERDICT.CHAIN);
  return [
    VERDICTS[code] ?? `${NOT_READ}: ${String(code)}`,
    ...(chain === undefined ? [] : [attributeText(chain)]),
  ].join(' ');
}
