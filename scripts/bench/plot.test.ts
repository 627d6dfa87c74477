import { describe, expect, it } from 'vitest';
import { renderPlot } from './plot.ts';
import { doublingScale, linearScale, logScale } from './plot-axis.ts';
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
  it('has title, labels, a legend and a mark for every point', () => {
    const svg = renderPlot(PLOT);
    for (const part of ['Rates &amp; &lt;more&gt;', 'calls at once', 'per second', '>one<', '>two<']) {
      expect(svg).toContain(part);
    }
    expect(svg.match(/<circle/g)).toHaveLength(3);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('begins at the lower left corner and ends below the top', () => {
    const [first, last] = /points="([^"]*)"/.exec(renderPlot(PLOT))![1]!.split(' ');
    expect(first).toBe('84,372');
    expect(last).toMatch(/^600,/);
    expect(Number(last?.split(',')[1])).toBeGreaterThanOrEqual(56);
  });
});

describe('scales', () => {
  it('end at round numbers', () => {
    expect(linearScale([0, 87]).ticks).toEqual([0, 20, 40, 60, 80, 100]);
    expect(linearScale([10_000]).ticks).toEqual([0, 2000, 4000, 6000, 8000, 10_000]);
    expect(logScale([8, 150]).ticks).toEqual([5, 10, 20, 50, 100, 200]);
    expect(doublingScale([4, 1, 2, 4]).ticks).toEqual([1, 2, 4]);
  });

  it.each([linearScale([0]), logScale([10]), doublingScale([3])])('have room for a single value', (scale) => {
    expect(scale.ticks.map((tick) => scale.place(tick)).every(Number.isFinite)).toBe(true);
  });
});
