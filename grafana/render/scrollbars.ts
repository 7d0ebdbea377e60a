// @grafana/ui is ES modules and takes the default of this CommonJS package, which esbuild, as Node does, finds one
// level deeper than webpack, which Grafana is built with.
export { Scrollbars as default } from './node_modules/@grafana/ui/node_modules/react-custom-scrollbars-2';
