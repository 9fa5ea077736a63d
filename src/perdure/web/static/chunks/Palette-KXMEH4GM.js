import{a,b}from"./chunk-OKYEQNGM.js";import"./chunk-3H3RYOSD.js";import"./chunk-EZHU3SRK.js";import"./chunk-UDLN27SR.js";export{b as Search,a as default};
