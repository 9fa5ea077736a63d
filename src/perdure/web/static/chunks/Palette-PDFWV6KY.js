import{a,b}from"./chunk-GOJ46GX3.js";import"./chunk-LPBOPCFQ.js";import"./chunk-BYUCVG25.js";import"./chunk-EVYV6DDR.js";import"./chunk-V5GODCSA.js";export{b as Search,a as default};
