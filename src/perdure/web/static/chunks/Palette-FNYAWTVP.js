import{a,b}from"./chunk-Z7MUK5KB.js";import"./chunk-EO4BCH3J.js";import"./chunk-QCXWBMQJ.js";import"./chunk-OQBS5HRO.js";export{b as Search,a as default};
