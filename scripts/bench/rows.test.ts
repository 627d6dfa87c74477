import { describe, expect, it } from 'vitest';
import { chooseRows, ROWS } from './rows.ts';

describe('rows', () => {
  it('are all measured unless some are named', () => {
    expect([undefined, '', ' , '].map(chooseRows)).toEqual([Object.keys(ROWS), Object.keys(ROWS), Object.keys(ROWS)]);
  });

  it('are measured once each, ADD and DEL together', () => {
    expect(chooseRows('add,del, status')).toEqual(['attach', 'status']);
  });

  it('with unknown names are refused', () => {
    expect(() => chooseRows('speed')).toThrow('no row is named "speed" (there are attach, ');
  });
});
