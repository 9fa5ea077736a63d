import{a,b}from"./chunk-M63OJFXA.js";import"./chunk-327WISVD.js";import"./chunk-UTK2QY2I.js";import"./chunk-B6IS5X42.js";import"./chunk-UDLN27SR.js";export{b as YourTurn,a as default};
