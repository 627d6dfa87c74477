/** What the benchmark's plots use; the package's own declarations need the types of a browser. */
declare module 'echarts/dist/echarts.esm.min.mjs' {
  export function init(
    element: null,
    theme: null,
    options: { renderer: 'svg'; ssr: true; width: number; height: number },
  ): Chart;

  interface Chart {
    setOption(option: object): void;
    renderToSVGString(): string;
    dispose(): void;
  }
}
