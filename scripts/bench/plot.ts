// A plot as SVG, for light and dark viewers alike.
import { doublingScale, linearScale, logScale, type Scale } from './plot-axis.ts';
import type { Axis, Curve, Plot } from './report.ts';

const WIDTH = 760;
const HEIGHT = 440;
const AREA = { left: 84, right: 600, top: 56, bottom: 372 } as const;
const LEGEND_LEFT = 628;
const LEGEND_STEP = 26;

/** Told apart by shape of the line as well, for those who do not see the colours. */
const STYLES = [
  { light: '#0b62a8', dark: '#6cb6ff', dashes: '' },
  { light: '#b4480c', dark: '#ff9e64', dashes: '8 5' },
  { light: '#1a7f4b', dark: '#5fd08f', dashes: '2 4' },
] as const;

export function renderPlot({ title, x, y, curves }: Plot): string {
  const points = curves.flatMap((curve) => curve.points);
  const across = scaleOf(
    x,
    points.map((point) => point.x),
  );
  const up = scaleOf(
    y,
    points.map((point) => point.y),
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${String(WIDTH)} ${String(HEIGHT)}" width="${String(WIDTH)}" height="${String(HEIGHT)}" role="img">`,
    `<title>${escape(title)}</title>`,
    styleSheet(),
    `<rect class="paper" width="${String(WIDTH)}" height="${String(HEIGHT)}"/>`,
    text({ at: [AREA.left, 30], content: title, kind: 'title' }),
    ...across.ticks.flatMap((tick) => {
      const left = leftOf(across, tick);
      return [
        line('grid', [left, AREA.top], [left, AREA.bottom]),
        text({ at: [left, AREA.bottom + 22], content: formatTick(tick), anchor: 'middle' }),
      ];
    }),
    ...up.ticks.flatMap((tick) => {
      const top = topOf(up, tick);
      return [
        line('grid', [AREA.left, top], [AREA.right, top]),
        text({ at: [AREA.left - 10, top + 5], content: formatTick(tick), anchor: 'end' }),
      ];
    }),
    line('axis', [AREA.left, AREA.bottom], [AREA.right, AREA.bottom]),
    line('axis', [AREA.left, AREA.top], [AREA.left, AREA.bottom]),
    text({ at: [(AREA.left + AREA.right) / 2, HEIGHT - 20], content: x.label, anchor: 'middle', kind: 'label' }),
    text({ at: [24, (AREA.top + AREA.bottom) / 2], content: y.label, anchor: 'middle', kind: 'label', upright: false }),
    ...curves.flatMap((curve, index) => renderCurve(curve, { index, across, up })),
    '</svg>',
    '',
  ].join('\n');
}

function scaleOf({ scale }: Axis, values: readonly number[]): Scale {
  return { linear: linearScale, log: logScale, doubling: doublingScale }[scale](values);
}

/** The curve, a mark at each measured point, and its line in the legend. */
function renderCurve(
  { name, points }: Curve,
  { index, across, up }: { index: number; across: Scale; up: Scale },
): string[] {
  const kind = `curve curve-${String(index % STYLES.length)}`;
  const places = points.map((point): Place => [leftOf(across, point.x), topOf(up, point.y)]);
  const legendTop = AREA.top + 12 + index * LEGEND_STEP;
  return [
    `<polyline class="${kind}" points="${places.map(([left, top]) => `${round(left)},${round(top)}`).join(' ')}"/>`,
    ...places.map(([left, top]) => `<circle class="${kind} mark" cx="${round(left)}" cy="${round(top)}" r="3.5"/>`),
    line(kind, [LEGEND_LEFT, legendTop], [LEGEND_LEFT + 34, legendTop]),
    text({ at: [LEGEND_LEFT + 42, legendTop + 5], content: name }),
  ];
}

type Place = readonly [left: number, top: number];

function leftOf(scale: Scale, value: number): number {
  return AREA.left + scale.place(value) * (AREA.right - AREA.left);
}

function topOf(scale: Scale, value: number): number {
  return AREA.bottom - scale.place(value) * (AREA.bottom - AREA.top);
}

function line(kind: string, from: Place, to: Place): string {
  return `<line class="${kind}" x1="${round(from[0])}" y1="${round(from[1])}" x2="${round(to[0])}" y2="${round(to[1])}"/>`;
}

interface Text {
  readonly at: Place;
  readonly content: string;
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly kind?: 'title' | 'label';
  /** False for a text that is read from below. */
  readonly upright?: boolean;
}

function text({ at: [left, top], content, anchor = 'start', kind, upright = true }: Text): string {
  const turn = upright ? '' : ` transform="rotate(-90 ${round(left)} ${round(top)})"`;
  const named = kind === undefined ? '' : ` class="${kind}"`;
  return `<text${named} x="${round(left)}" y="${round(top)}" text-anchor="${anchor}"${turn}>${escape(content)}</text>`;
}

function styleSheet(): string {
  const colours = (tone: 'light' | 'dark'): string =>
    STYLES.map(
      (style, index) =>
        `.curve-${String(index)} { stroke: ${style[tone]}; } .mark.curve-${String(index)} { fill: ${style[tone]}; }`,
    ).join(' ');
  return [
    '<style>',
    'text { font: 14px sans-serif; fill: #333; } .title { font-size: 17px; font-weight: bold; } .label { font-size: 15px; }',
    '.paper { fill: #fff; } .grid { stroke: #e2e2e2; } .axis { stroke: #666; }',
    '.curve { fill: none; stroke-width: 2.5; stroke-linejoin: round; } .mark { stroke-dasharray: none; stroke-width: 0; }',
    STYLES.map(({ dashes }, index) =>
      dashes === '' ? '' : `.curve-${String(index)}:not(.mark) { stroke-dasharray: ${dashes}; }`,
    ).join(' '),
    colours('light'),
    `@media (prefers-color-scheme: dark) { text { fill: #ddd; } .paper { fill: #16181c; } .grid { stroke: #34373d; } .axis { stroke: #999; } ${colours('dark')} }`,
    '</style>',
  ].join('\n');
}

function formatTick(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 6 }).replaceAll(',', ' ');
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
