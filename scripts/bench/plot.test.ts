import { describe, expect, it } from 'vitest';
import { renderPlot } from './plot.ts';
import type { Plot } from './report.ts';

const PLOT: Plot = {
  name: 'rates',
  title: 'Rates & <more>',
  x: { label: 'calls at once', scale: 'doubling' },
  y: { label: 'per second', scale: 'linear' },
  curves: [
    {
      name: 'one',
      points: [
        { x: 1, y: 0 },
        { x: 64, y: 87 },
      ],
    },
    { name: 'two', points: [{ x: 8, y: 10 }] },
  ],
};

describe('a plot', () => {
  it('has title, labels, a legend and a tick for every doubling', () => {
    const svg = renderPlot(PLOT);
    for (const part of ['Rates &amp; &lt;more&gt;', 'calls at once', 'per second', '>one<', '>two<', '>8<', '>64<'])
      expect(svg).toContain(part);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });

  it.each(['linear', 'log', 'doubling'] as const)('has room for a single value on a %s axis', (scale) => {
    const svg = renderPlot({
      ...PLOT,
      x: { label: 'x', scale },
      curves: [{ name: 'one', points: [{ x: 3, y: 10 }] }],
    });
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });
});
