import { NOT_KNOWN, pairKey, type ShownMap } from './shown-map.ts';

const NOTHING = '.';

/** Renders a table with a row for each group that sends and a column for each that receives. */
export function renderMapText({ groups, cells, notConsidered, legend }: ShownMap): string {
  const [unknown, meaningOfUnknown] = NOT_KNOWN;
  const signs = new Map([
    ...cells.map(({ from, to, sign }) => [pairKey(from, to), sign] as const),
    ...notConsidered.map(({ from, to }) => [pairKey(from, to), unknown] as const),
  ]);
  const numberWidth = String(groups.length).length;
  const width = Math.max(numberWidth, ...cells.map(({ sign }) => sign.length)) + 1;
  const numbers = groups.map((_, place) => String(place + 1));
  const rows = groups.map(({ text }, from) => {
    const marks = groups.map((_each, to) => (signs.get(pairKey(from, to)) ?? NOTHING).padStart(width));
    return `${(numbers[from] ?? '').padStart(numberWidth)} ${marks.join('')}  ${text}`;
  });
  const lines = [
    'from the row to the column; columns have the numbers of rows',
    '',
    `${' '.repeat(numberWidth + 1)}${numbers.map((number) => number.padStart(width)).join('')}`,
    ...rows,
    '',
    `${NOTHING}  nothing`,
    ...(notConsidered.length === 0 ? [] : [`${unknown}  ${meaningOfUnknown}`]),
    ...Object.entries(legend).map(([sign, meaning]) => `${sign.padEnd(2)} ${meaning}`),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
