import{a,b}from"./chunk-6UO2WANL.js";import"./chunk-Y3UQA3HY.js";import"./chunk-JK5ZHSSX.js";import"./chunk-5IRO7ZNF.js";export{b as Search,a as default};
