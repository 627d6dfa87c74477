import * as v from 'valibot';
import { oneOf } from './field.ts';
import { wholeNumber } from './spec-types.ts';

const NUMBERS = { TCP: 6, UDP: 17, ICMP: 1, ICMPv6: 58, SCTP: 132, UDPLite: 136 } as const;
const NAMES = ['TCP', 'UDP', 'ICMP', 'ICMPv6', 'SCTP', 'UDPLite'] as const satisfies readonly (keyof typeof NUMBERS)[];
const TEXT = '"TCP", "UDP", "ICMP", "ICMPv6", "SCTP", "UDPLite" or a number from 1 to 255';

export const Protocol = v.union([v.picklist(NAMES), wholeNumber(1, 255)], TEXT);
export type Protocol = v.InferOutput<typeof Protocol>;

/** Protocols with ports that rules can match. */
export const PortProtocol = oneOf(['TCP', 'UDP', 'SCTP']);

const PORT = wholeNumber(1, 65_535);
const PORTS = 'a port from 1 to 65535, a range such as "8080:8090", or the name of a port';
const PORT_NAME = /^(?=.*[a-zA-Z])[a-zA-Z0-9_.-]{1,128}$/;

export const SinglePort = PORT;
/** A port, a range of ports, or the name of a port of a workload. */
export const Ports = v.union([PORT, v.pipe(v.string(), v.check(isRangeOrName, PORTS))], PORTS);

export function protocolNumber(protocol: Protocol): number {
  return typeof protocol === 'number' ? protocol : NUMBERS[protocol];
}

/** Returns the name of a protocol, or its number for one without a name. */
export function protocolName(number: number): string {
  return NAMES.find((name) => NUMBERS[name] === number) ?? `protocol ${String(number)}`;
}

/** Reports whether resources can name the protocol. */
export function isNamedProtocol(number: number): boolean {
  return NAMES.some((name) => NUMBERS[name] === number);
}

export function hasPorts(protocol: Protocol): boolean {
  return [NUMBERS.TCP, NUMBERS.UDP, NUMBERS.SCTP].some((number) => number === protocolNumber(protocol));
}

function isRangeOrName(text: string): boolean {
  const [, first, last] = /^(\d{1,5}):(\d{1,5})$/.exec(text) ?? [];
  if (first === undefined || last === undefined) return PORT_NAME.test(text);
  return Number(first) >= 1 && Number(first) <= Number(last) && Number(last) <= 65_535;
}
