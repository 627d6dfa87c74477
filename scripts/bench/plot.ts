// A plot as SVG, for light and dark viewers alike.
import { init } from 'echarts/dist/echarts.esm.min.mjs';
import type { Axis, Curve, Plot } from './report.ts';

const SIZE = { width: 760, height: 440 } as const;
const INK = '#333';
/** Distinguishes series by line and mark as well, for readers who do not see the colours. */
const STYLES = [
  { color: '#0b62a8', line: 'solid', mark: 'circle' },
  { color: '#b4480c', line: 'dashed', mark: 'rect' },
  { color: '#1a7f4b', line: 'dotted', mark: 'triangle' },
] as const;
const DARK = '<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.9) hue-rotate(180deg) } }</style>';

export function renderPlot({ title, x, y, curves }: Plot): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...SIZE });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    textStyle: { color: INK, fontFamily: 'sans-serif', fontSize: 14 },
    title: { text: title, left: 'center', top: 8, textStyle: { color: INK, fontSize: 17 } },
    legend: { bottom: 4, itemWidth: 44, itemGap: 32, textStyle: { color: INK, fontSize: 14 } },
    grid: { left: 76, right: 28, top: 52, bottom: 84 },
    xAxis: { ...axisOf(x, curves), nameGap: 28 },
    yAxis: { ...axisOf(y, curves), nameGap: 52 },
    series: curves.map(({ name, points }, index) => {
      const style = STYLES[index % STYLES.length];
      return {
        name,
        type: 'line',
        data: points.map((point) => [x.scale === 'doubling' ? String(point.x) : point.x, point.y]),
        color: style?.color,
        lineStyle: { width: 2.5, type: style?.line },
        symbol: style?.mark,
        symbolSize: 8,
      };
    }),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg.replace('>', `>${DARK}`);
}

/** On an axis of doublings every value that was measured has its name and the same room. */
function axisOf({ label, scale }: Axis, curves: readonly Curve[]): object {
  const values = [...new Set(curves.flatMap(({ points }) => points.map((point) => point.x)))].sort((a, b) => a - b);
  return {
    name: label,
    nameLocation: 'middle',
    nameTextStyle: { fontSize: 15, color: INK },
    axisLabel: { color: INK, fontSize: 14 },
    axisLine: { show: true, lineStyle: { color: '#666' } },
    splitLine: { show: true, lineStyle: { color: '#e2e2e2' } },
    ...{
      linear: { type: 'value', min: 0 },
      log: { type: 'log' },
      doubling: { type: 'category', data: values.map(String), boundaryGap: false },
    }[scale],
  };
}
