import{a,b}from"./chunk-UYGPAKSR.js";import"./chunk-6LW2L7L2.js";import"./chunk-UKO7FA6S.js";import"./chunk-W5RA6EYE.js";import"./chunk-OQBS5HRO.js";export{b as YourTurn,a as default};
