import{a,b}from"./chunk-BLF6D6TP.js";import"./chunk-3TXUIH5W.js";import"./chunk-YZMB23LL.js";import"./chunk-X7YOW5OO.js";export{b as Search,a as default};
