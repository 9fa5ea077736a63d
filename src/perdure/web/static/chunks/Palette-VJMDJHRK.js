import{a,b}from"./chunk-GI7XDRKN.js";import"./chunk-66XV73D4.js";import"./chunk-US7T324B.js";import"./chunk-NFWFC3JI.js";import"./chunk-WZ3V2XHV.js";export{b as Search,a as default};
