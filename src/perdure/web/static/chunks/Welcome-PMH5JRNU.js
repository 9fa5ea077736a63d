import{a,b}from"./chunk-W74ZGNDE.js";import"./chunk-B6SIUU7G.js";import"./chunk-BBHPM767.js";import"./chunk-2P6ENXIS.js";import"./chunk-UKSDIW66.js";export{b as YourTurn,a as default};
