import{a,b}from"./chunk-3TWZ2X4R.js";import"./chunk-7AAORIVE.js";import"./chunk-ODJAICO7.js";import"./chunk-UJBJVUQ6.js";import"./chunk-VV7KMXS2.js";export{b as Search,a as default};
