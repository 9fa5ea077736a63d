import{a,b}from"./chunk-OJXIH7L3.js";import"./chunk-DLKG74LB.js";import"./chunk-UTK2QY2I.js";import"./chunk-B6IS5X42.js";import"./chunk-UDLN27SR.js";export{b as YourTurn,a as default};
